// The calls that front ends make, with the JavaScript client that they use. `node calls.mjs <name> <JSON arguments>` prints what came back.
const [name, given] = process.argv.slice(2);
const { sdk, url, token, thread, text, extra } = JSON.parse(given);
const { Client } = await import(sdk);
const said = (content) => ({ messages: [{ type: "human", id: crypto.randomUUID(), content }] });
const client = (options = {}) =>
  new Client({ apiUrl: url, apiKey: null, defaultHeaders: { Authorization: `Bearer ${token}` }, ...options });
const options = (more) => ({ input: said(text), streamMode: ["values"], streamSubgraphs: true, streamResumable: true, ...more });

async function collect(stream) {
  const events = [];
  for await (const { id, event, data } of stream) events.push({ id, event, data });
  const last = events.filter(({ event }) => event === "values").at(-1)?.data;
  return { events: events.map(({ event }) => event), ids: events.map(({ id }) => id), last };
}

const calls = {
  // useStream: a thread, then a stream of its run.
  async stream() {
    const { thread_id } = await client().threads.create({});
    const found = await collect(client().runs.stream(thread_id, "agent", options({ onDisconnect: "continue" })));
    return { thread: thread_id, ...found, state: await client().threads.getState(thread_id) };
  },
  // A token that is looked up for each request.
  async onRequest() {
    const onRequest = (_, init) => ({ ...init, headers: { ...init.headers, authorization: `Bearer ${token}` } });
    const mine = client({ defaultHeaders: {}, onRequest });
    const { thread_id } = await mine.threads.create({});
    return collect(mine.runs.stream(thread_id, "agent", options()));
  },
  // useStream with `reconnectOnMount`: the page was closed, and is opened again.
  async join() {
    const { thread_id } = await client().threads.create({});
    const leave = new AbortController();
    let run;
    const onRunCreated = ({ run_id }) => (run = run_id);
    try {
      const stream = client().runs.stream(
        thread_id, "agent", options({ onDisconnect: "continue", onRunCreated, signal: leave.signal }),
      );
      for await (const _ of stream) leave.abort();
    } catch (error) {
      if (!leave.signal.aborted) throw error;
    }
    return collect(client().runs.joinStream(thread_id, run, { lastEventId: "-1", streamMode: ["values"] }));
  },
  // @langchain/react: one stream of the thread's events, and commands beside it.
  async protocol() {
    const stream = client().threads.stream({ assistantId: "agent" });
    try {
      await stream.run.start({ input: said(text) });
      return { last: await stream.output };
    } finally {
      await stream.close();
    }
  },
  async resume() {
    return collect(client().runs.stream(thread, "agent", { command: { resume: extra }, streamMode: ["values"] }));
  },
  async setFiles() {
    return client().threads.updateState(thread, { values: { files: extra } });
  },
  async state() {
    return client().threads.getState(thread);
  },
  async titles() {
    return client().threads.search({ select: ["thread_id"], extract: { title: "values.messages[0].content" } });
  },
  async step() {
    return collect(client().runs.stream(thread, "agent", { input: said(text), interruptBefore: ["tools"] }));
  },
  async apiKey() {
    return new Client({ apiUrl: url, apiKey: token }).threads.search();
  },
};

try {
  console.log(JSON.stringify({ ok: await calls[name]() }));
} catch (error) {
  console.log(JSON.stringify({ status: error.status ?? null, error: String(error.message ?? error) }));
}
