/** Bare: posts the body of a file to an endpoint with node:http, and prints the text of the answer's events. */
import { readFileSync } from "node:fs";
import { request } from "node:http";

const [url, file] = process.argv.slice(2);
const body = readFileSync(file, "utf8");
const headers = {
  "content-type": "application/json",
  "content-length": Buffer.byteLength(body),
  accept: "text/event-stream",
  authorization: "Bearer bench-key",
};
const outgoing = request(`${url}/chat/completions`, { method: "POST", headers }, (answer) => {
  let text = "";
  answer.setEncoding("utf8");
  answer.on("data", (chunk) => {
    text += chunk;
  });
  answer.on("end", () => {
    const events = text.split("\n\n").filter((event) => event.startsWith("data: {"));
    for (const event of events) process.stdout.write(JSON.parse(event.slice(6)).choices[0]?.delta.content ?? "");
  });
});
outgoing.end(body);
