/** Where addresses lead, in every spelling. */
import { expect, test } from "vitest";
import { addressClass } from "../../src/util/address-class.ts";

test.each([
  [
    "loopback",
    "127.0.0.1 127.8.9.10 ::1 [::1] ::ffff:127.0.0.1 ::ffff:7f00:1 0:0:0:0:0:ffff:7f00:0001 64:ff9b::7f00:1",
  ],
  ["private", "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 fd00::1 fc00::1 ::ffff:10.0.0.1"],
  [
    "never",
    "0.0.0.0 169.254.169.254 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe fe80::1%eth0 fec0::1 ff02::1 :: ::7f00:1",
  ],
  ["never", "224.0.0.1 240.0.0.1 255.255.255.255 198.18.0.1 192.0.2.1 2001:db8::1 2002:7f00:1:: 2001::1"],
  ["never", "localhost example.com 127.1 0x7f000001 2130706433 1.2.3 1.2.3.4.5 [] :::"],
  [
    "public",
    "8.8.8.8 172.32.0.1 172.15.0.1 11.0.0.1 2606:4700::1111 [2606:4700::1111] 64:ff9b::8.8.8.8 ::ffff:8.8.8.8",
  ],
] as const)("%s: %s", (kind, addresses) => {
  for (const address of addresses.split(" ")) expect(addressClass(address), address).toBe(kind);
});
