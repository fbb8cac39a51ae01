/**
 * Address class: where an IP address leads, as far as a request that somebody else has asked for must know.
 *
 * Invariant: what is not known to be public, private or loopback is "never"; an IPv6 address that carries an IPv4
 * address counts as that address.
 */
import { BlockList, isIP, isIPv4 } from "node:net";

/** loopback: this machine. private: its own network. never: link-local (metadata services), multicast, reserved. */
export type AddressClass = "public" | "private" | "loopback" | "never";

const lists: Record<Exclude<AddressClass, "public">, BlockList> = {
  loopback: listOf(["127.0.0.0/8", "::1/128"]),
  private: listOf(["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"]),
  never: listOf([
    "0.0.0.0/8",
    "169.254.0.0/16",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",
    "::/96",
    "100::/64",
    "2001::/32",
    "2001:db8::/32",
    "2002::/16",
    "fe80::/9",
    "ff00::/8",
  ]),
};

function listOf(networks: string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits = ""] = network.split("/");
    list.addSubnet(address, Number(bits), isIPv4(address) ? "ipv4" : "ipv6");
  }
  return list;
}

/** The class of a literal address, with or without brackets and zone; "never" where it is none. */
export function addressClass(written: string): AddressClass {
  const bare = written.replace(/^\[|\]$/g, "").replace(/%.*$/, "");
  if (isIP(bare) === 0) return "never";
  const address = embedded(bare) ?? bare;
  const family = isIPv4(address) ? "ipv4" : "ipv6";
  for (const name of ["loopback", "private", "never"] as const) {
    if (lists[name].check(address, family)) return name;
  }
  return "public";
}

/** The IPv4 address inside `::ffff:a.b.c.d` (mapped) and `64:ff9b::a.b.c.d` (NAT64). */
function embedded(address: string): string | undefined {
  if (isIPv4(address)) return undefined;
  const groups = groupsOf(address);
  const prefix = groups.slice(0, 6).join(":");
  if (prefix !== "0:0:0:0:0:65535" && prefix !== "100:65435:0:0:0:0") return undefined;
  const [high = 0, low = 0] = groups.slice(6);
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

/** The eight groups of an IPv6 address, as numbers. */
function groupsOf(address: string): number[] {
  const tail = /(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(address);
  const [a = 0, b = 0, c = 0, d = 0] = tail ? tail.slice(1).map(Number) : [];
  const hexadecimal = tail
    ? address.replace(tail[0], `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`)
    : address;
  const [before = "", after] = hexadecimal.split("::");
  const numbers = (part: string | undefined) =>
    part ? part.split(":").map((group) => Number.parseInt(group, 16)) : [];
  if (after === undefined) return numbers(before);
  const [left, right] = [numbers(before), numbers(after)];
  return [...left, ...Array.from({ length: 8 - left.length - right.length }, () => 0), ...right];
}
