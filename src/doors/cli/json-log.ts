/**
 * `--log-format json`: what is told on stderr as one JSON object a line.
 *
 * Invariant: each line has `time`, `level` and `text`; what belongs to a response has `response_id`, and `trace_id`
 * where it is traced.
 */
import type { Notice } from "../../types/event.ts";

export type LogFormat = "text" | "json";

export function jsonLine(level: Notice["level"], text: string, fields: Record<string, unknown> = {}): string {
  return `${JSON.stringify({ time: new Date().toISOString(), level, text, ...fields })}\n`;
}

export function noticeLine({ level, text, topic, responseId, itemId, traceId }: Notice): string {
  return jsonLine(level, text, {
    topic,
    ...(responseId !== null && { response_id: responseId }),
    ...(itemId !== undefined && { item_id: itemId }),
    ...(traceId !== undefined && { trace_id: traceId }),
  });
}
