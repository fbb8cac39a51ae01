/** Near names: what was probably meant by a name that there is not. Invariant: a guess only where it is close. */

/** The candidate nearest to the name, without regard to case; undefined where none is near. */
export function nearName(name: string, candidates: Iterable<string>): string | undefined {
  const wanted = name.toLowerCase();
  let best: { candidate: string; steps: number } | undefined;
  for (const candidate of candidates) {
    const most = Math.max(1, Math.floor(Math.min(wanted.length, candidate.length) / 3));
    if (Math.abs(candidate.length - wanted.length) > most || wanted.length > 60) continue;
    const steps = distance(wanted, candidate.toLowerCase());
    if (steps <= most && (best === undefined || steps < best.steps)) best = { candidate, steps };
  }
  return best?.candidate;
}

/** ": did you mean read?", or nothing: to be put behind a name that there is not. */
export function didYouMean(name: string, candidates: Iterable<string>): string {
  const near = nearName(name, candidates);
  return near === undefined ? "" : `: did you mean ${near}?`;
}

/** Characters to put in, take out, replace or exchange with their neighbour. */
function distance(one: string, other: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1] ? 0 : 1;
      let least = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + same);
      const swapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      if (swapped) least = Math.min(least, (beforeLast[j - 2] ?? 0) + 1);
      row.push(least);
    }
    beforeLast = last;
    last = row;
  }
  return last[other.length] ?? 0;
}
