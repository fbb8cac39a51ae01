/** Addresses of databases, for people. Invariant: no password is shown. */

export function withoutPassword(address: string): string {
  return address.replace(/^(\w+:\/\/[^/@:]*):[^@]*@/, "$1:…@").replace(/([?&](?:ssl)?password=)[^&]*/gi, "$1…");
}
