/** Small drawings. Invariant: each is decoration: what it means stands beside it in words, or as a label. */

const PATHS = {
  chat: "M3 4.5h14v9H9l-4 3v-3H3z",
  tree: "M5 4v12M5 10h5a4 4 0 0 0 4-4M5 4m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M5 16m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M14 5m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0",
  runs: "M6 4l9 6-9 6z",
  schedules: "M10 3a7 7 0 1 0 0 14a7 7 0 1 0 0-14M10 6v4l3 2",
  approvals: "M10 2.5l6 2.5v4.5c0 4-2.6 6.6-6 8-3.4-1.4-6-4-6-8V5zM7.3 10l2 2 3.5-4",
  hub: "M7 3v5M13 3v5M5 8h10v2a5 5 0 0 1-10 0zM10 15v3",
  models: "M10 3l6 3.5v7L10 17l-6-3.5v-7zM4 6.5l6 3.5 6-3.5M10 10v7",
  usage: "M4 16V9M8 16V4M12 16v-5M16 16V7",
  search: "M9 3.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M13 13l4 4",
  settings: "M3 6h8M15 6h2M3 14h2M9 14h8M13 4v4M7 12v4",
  plus: "M10 4v12M4 10h12",
  menu: "M3 6h14M3 10h14M3 14h14",
  close: "M5 5l10 10M15 5L5 15",
  send: "M10 16V4M5 9l5-5 5 5",
  stop: "M6 6h8v8H6z",
  attach: "M14.5 9.5l-5 5a3.2 3.2 0 0 1-4.5-4.5l6-6a2.2 2.2 0 0 1 3 3l-6 6a1 1 0 0 1-1.5-1.5l5-5",
  branch: "M6 4v12M6 11c5 0 8-1 8-5",
  help: "M7.5 7.5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8M10 14.5v.1M10 2.5a7.5 7.5 0 1 0 0 15a7.5 7.5 0 1 0 0-15",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** A round hall, seen from above, with its doors. */
export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <circle cx="12" cy="12" r="9" stroke-dasharray="7.5 1.925" />
      <circle cx="12" cy="12" r="3.2" class="logo-heart" />
    </svg>
  );
}
