/**
 * Bars by day, drawn by hand.
 *
 * Invariant: the drawing is decoration; the table below it holds the same numbers, for whoever does not see it and for
 * whoever wants them exactly. Series differ by pattern as well as by shade.
 */
export interface Series {
  name: string;
  values: readonly number[];
}

interface Properties {
  title: string;
  days: readonly string[];
  series: readonly Series[];
  format: (value: number) => string;
}

const WIDTH = 640;
const HEIGHT = 150;
const LEFT = 60;
const BOTTOM = 20;
const TOP = 14;

/** The next 1, 2 or 5 times a power of ten. */
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}

export function Chart({ title, days, series, format }: Properties) {
  const totals = days.map((_, day) => series.reduce((sum, { values }) => sum + (values[day] ?? 0), 0));
  const top = roundUp(Math.max(...totals, 0));
  const height = HEIGHT - TOP - BOTTOM;
  const step = (WIDTH - LEFT) / Math.max(1, days.length);
  const y = (value: number) => TOP + height - (value / top) * height;
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true" focusable="false">
        {[0, 0.5, 1].map((part) => (
          <g key={part}>
            <line class="chart-line" x1={LEFT} x2={WIDTH} y1={y(top * part)} y2={y(top * part)} />
            <text class="chart-text" x={LEFT - 6} y={y(top * part) + 4} text-anchor="end">
              {format(top * part)}
            </text>
          </g>
        ))}
        {days.map((day, at) => {
          let below = 0;
          return (
            <g key={day}>
              {series.map(({ name, values }, number) => {
                const value = values[at] ?? 0;
                const from = below;
                below += value;
                if (value === 0) return null;
                return (
                  <rect
                    key={name}
                    class={`bar bar-${number % 6}`}
                    x={LEFT + at * step + step * 0.12}
                    width={step * 0.76}
                    y={y(below)}
                    height={Math.max(0.5, y(from) - y(below))}
                  />
                );
              })}
              {(days.length - 1 - at) % Math.ceil(days.length / 5) === 0 && (
                <text
                  class="chart-text"
                  x={at === days.length - 1 ? WIDTH : LEFT + at * step + step / 2}
                  y={HEIGHT - 5}
                  text-anchor={at === days.length - 1 ? "end" : "middle"}
                >
                  {day.slice(5)}
                </text>
              )}
            </g>
          );
        })}
      </svg>
      {series.length > 1 && (
        <ul class="legend" aria-hidden="true">
          {series.map(({ name }, number) => (
            <li key={name}>
              <svg viewBox="0 0 10 10" aria-hidden="true">
                <rect class={`bar bar-${number % 6}`} width="10" height="10" />
              </svg>
              {name}
            </li>
          ))}
        </ul>
      )}
    </figure>
  );
}
