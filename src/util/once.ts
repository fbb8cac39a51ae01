/** Things that are made when they are first wanted, and then kept. */

export type Once<T> = (() => Promise<T>) & { made(): boolean };

/** Makes it at the first call; `made` tells whether there was one. */
export function once<T>(make: () => Promise<T>): Once<T> {
  let made: Promise<T> | undefined;
  const get = () => {
    made ??= make();
    return made;
  };
  return Object.assign(get, { made: () => made !== undefined });
}

/** The same for each key. */
export function onceFor<T>(make: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const made = new Map<string, Promise<T>>();
  return (key) => {
    const known = made.get(key) ?? make(key);
    made.set(key, known);
    return known;
  };
}
