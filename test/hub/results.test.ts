import { describe, expect, it } from "vitest";
import { Circuit } from "../../src/hub/circuit.ts";
import { toFailure } from "../../src/hub/failures.ts";
import { readResult } from "../../src/hub/results.ts";

describe("results", () => {
  it("F15, N20: text lines, and one line for everything that is not text", () => {
    const content = [
      { type: "text", text: "first" },
      { type: "image", data: "AAAA", mimeType: "image/png" },
      { type: "audio", data: "AAAA", mimeType: "audio/wav" },
      { type: "resource", resource: { uri: "file:///a", text: "inside" } },
      { type: "resource", resource: { uri: "file:///b", blob: "AAAA", mimeType: "application/pdf" } },
      { type: "resource_link", uri: "file:///c", name: "c", description: "see there" },
      { type: "table", rows: [[1, 2]] },
      { type: "text", text: "last" },
    ];
    expect(readResult({ content }, "s")).toEqual({
      text: [
        "first",
        "[Image: image/png]",
        "[Audio: audio/wav]",
        "inside",
        "[Resource: file:///b, application/pdf]",
        "[Resource: c – file:///c – see there]",
        '{"type":"table","rows":[[1,2]]}',
        "last",
      ].join("\n"),
      images: [{ type: "input_image", image_url: "data:image/png;base64,AAAA" }],
    });
  });

  it("keeps structured content, and shows it where there is no text", () => {
    const structuredContent = { a: [1] };
    expect(readResult({ content: [{ type: "text", text: "t" }], structuredContent }, "s")).toEqual({
      text: "t",
      structured: { a: [1] },
    });
    expect(readResult({ structuredContent }, "s")).toEqual({ text: '{"a":[1]}', structured: { a: [1] } });
    expect(readResult({ content: [], structuredContent: null }, "s").text).toBe("(no output)");
  });

  it("drops structured content that is nested too deep to be kept", () => {
    let deep: object = {};
    for (let i = 0; i < 150; i++) deep = { deep };
    expect(readResult({ content: [{ type: "text", text: "t" }], structuredContent: deep }, "s")).toEqual({ text: "t" });
  });

  it("keeps isError and never gives an empty text", () => {
    expect(readResult({ content: [], isError: true }, "s")).toEqual({ text: "(no output)", isError: true });
    expect(readResult({ content: [{ type: "text", text: "" }] }, "s")).toEqual({ text: "(no output)" });
  });

  it.each([null, 7, "text", [], {}, { content: "text" }, { content: [null] }, { content: [{}] }, { content: {} }])(
    "M9: %j is an error result",
    (raw) => {
      expect(readResult(raw, "s")).toMatchObject({ isError: true, text: expect.stringMatching(/wrong shape/) });
    },
  );
});

describe("the circuit", () => {
  it("doubles its delay from a second to a minute, and calls wait after the fifth failure", () => {
    const circuit = new Circuit();
    const delays: number[] = [];
    for (let failure = 1; failure <= 9; failure++) {
      circuit.fail(0);
      let delay = 0;
      while (!circuit.mayStart(delay)) delay += 1000;
      delays.push(delay / 1000);
      expect(circuit.refusedFor(0) > 0).toBe(failure >= 5);
    }
    expect(delays).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
    expect(circuit.refusedFor(60_000)).toBe(0);
    circuit.succeed();
    expect(circuit.mayStart(0)).toBe(true);
  });

  it("opens at once for a flood", () => {
    const circuit = new Circuit();
    circuit.fail(0, true);
    expect(circuit.refusedFor(0)).toBe(60_000);
  });
});

describe("failures: can the call have run?", () => {
  const error = (properties: object, message = "m") => Object.assign(new Error(message), properties);
  const network = (code: string) => new TypeError("fetch failed", { cause: error({ code }) });
  it.each([
    ["-32602", error({ code: -32602 }), "rejected"],
    ["-32601", error({ code: -32601 }), "rejected"],
    ["-32603", error({ code: -32603 }), "answered"],
    ["-32020", error({ code: -32020 }), "not_run"],
    ["-32042", error({ code: -32042, data: { elicitations: [{ url: "https://a.example" }] } }), "refused"],
    ["closed", error({ code: "CONNECTION_CLOSED" }), "unknown"],
    ["timeout", error({ code: "REQUEST_TIMEOUT" }), "timed_out"],
    ["not connected", new Error("Not connected"), "not_run"],
    ["refused", network("ECONNREFUSED"), "not_run"],
    ["no such host", network("ENOTFOUND"), "not_run"],
    ["reset", network("ECONNRESET"), "unknown"],
    ["network", new TypeError("fetch failed"), "unknown"],
    ["401", error({ code: "CLIENT_HTTP_AUTHENTICATION", status: 401 }), "refused"],
    ["429", error({ code: "X", status: 429 }), "not_run"],
    ["408", error({ code: "X", status: 408 }), "unknown"],
    ["503", error({ code: "X", status: 503 }), "unknown"],
    ["anything", "text", "unknown"],
  ])("%s", (_what, thrown, kind) => {
    expect(toFailure(thrown).kind).toBe(kind);
  });

  it("a link that a person would have to open is shown", () => {
    const data = { elicitations: [{ url: "https://a.example/sign-in" }] };
    expect(toFailure(error({ code: -32042, data })).message).toContain("https://a.example/sign-in");
  });
});
