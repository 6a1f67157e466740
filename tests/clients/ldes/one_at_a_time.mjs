// Loaded before ldes-client (node --import), so that `--concurrent 1` holds.
//
// Version 0.3.0 takes the next page from its queue in ModulatorInstance.checkReady, which looks at the number of
// requests, waits for its state and only then counts the new one. Whenever the reader of its output asks for more,
// checkReady is called again, also in that gap: on a busy machine two or three pages are in flight, and an ordered
// replication gives their members in the order in which they came. Calls that wait for each other leave no gap.
// What is fetched, how it is read and what is given stay the client's own.

import { realpathSync } from "node:fs";
import { pathToFileURL } from "node:url";

const program = pathToFileURL(realpathSync(process.argv[1]));
const { ModulatorInstance } = await import(new URL("../lib/fetcher/modulator.js", program));
const { checkReady } = ModulatorInstance.prototype;
const last = new WeakMap();

ModulatorInstance.prototype.checkReady = function () {
  const before = last.get(this) ?? Promise.resolve();
  const now = before.then(() => checkReady.call(this));
  last.set(this, now.catch(() => undefined));
  return now;
};
