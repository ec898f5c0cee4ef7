// A page with the hook `useConversation(token)` of a module, in jsdom. `node conversation.mjs <module> <JSON arguments>` sends
// each of `turns`, renders again with each of `tokens` before, and prints what the page shows: after the answers; with `reload`,
// when it is opened again; with `late`, when it is opened again while the answer to `late` is on its way.
import { JSDOM } from "jsdom";

const [path, given] = process.argv.slice(2);
const { tokens, turns, reload, late } = JSON.parse(given);
const { window } = new JSDOM("<main></main>", { url: "http://localhost:3000/" });
for (const name of ["window", "document", "sessionStorage", "localStorage", "navigator"])
  Object.defineProperty(globalThis, name, { value: name === "window" ? window : window[name], configurable: true });

// After the globals, which they look for when they are loaded.
const { createElement, useState } = await import("react");
const { createRoot } = await import("react-dom/client");
const { listThreads, useConversation } = await import(path);

const words = ({ content }) => (typeof content === "string" ? content : content.map(({ text }) => text ?? "").join(""));
let token = tokens[0];
let stream, render, root;

function Page() {
  const [, count] = useState(0);
  render = () => count((before) => before + 1);
  stream = useConversation(token);
  return [...stream.messages.map((message, at) => createElement("p", { key: at }, words(message))), stream.provider];
}

function open() {
  stream = undefined;
  root = createRoot(document.querySelector("main"));
  root.render(createElement(Page));
}

const shown = () => [...document.querySelectorAll("p")].map(({ textContent }) => textContent);

async function until(what, holds) {
  const end = Date.now() + 20_000;
  while (!(await holds())) {
    if (stream?.error) throw stream.error;
    if (Date.now() > end) throw new Error(`not seen within 20 s: ${what}; the page shows ${JSON.stringify(shown())}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

const answered = (text) => until(text, () => shown().includes(text) && !stream.isLoading);
const send = (content) => void stream.submit({ messages: [{ type: "human", content }] });
const begun = async () => (await stream.client.threads.getState(sessionStorage.getItem("thread"))).next.length > 0;

try {
  open();
  for (const [at, { text, answer }] of turns.entries()) {
    await until("the page", () => stream);
    token = tokens[at];
    render();
    await new Promise((done) => setTimeout(done, 100));
    send(text);
    await answered(answer);
  }
  const found = { answered: shown() };
  if (reload) {
    root.unmount();
    open();
    await answered(turns.at(-1).answer);
    found.opened = shown();
  }
  if (late) {
    send(late.text);
    await until(late.text, () => shown().includes(late.text));
    await until("a checkpoint of the run", begun);
    root.unmount();
    open();
    await answered(late.answer);
    found.joined = shown();
  }
  if (listThreads) found.listed = await listThreads(token);
  console.log(JSON.stringify({ ok: found }));
} catch (error) {
  console.log(JSON.stringify({ status: error.status ?? null, error: String(error.message ?? error) }));
}
process.exit(0); // streams that are still open would keep it
