/**
 * A schema that is made when something is first asked of it. Built into packages by build-plugins.ts.
 *
 * Invariant: whoever holds it can do with it what can be done with the schema itself, and sees no difference.
 */
export function whenUsed<Schema extends object>(make: () => Schema): Schema {
  let made: Schema | undefined;
  const used = () => {
    made ??= make();
    return made;
  };
  return new Proxy({} as Schema, {
    get: (_, name) => Reflect.get(used(), name),
    set: (_, name, value) => Reflect.set(used(), name, value),
    has: (_, name) => Reflect.has(used(), name),
    getPrototypeOf: () => Reflect.getPrototypeOf(used()),
    defineProperty: (_, name, property) => Reflect.defineProperty(used(), name, property),
  });
}
