// Follow the events of one store, so that its page shows a change at once. Without the stream the page still polls.

import { stream } from "./service.js";

const SILENT_FOR = 60000; // a stream that lives says so more often
const AGAIN_AFTER = 10000;

export class Follower {
  /** `changed()` is called for each event. */
  constructor(changed) {
    this.changed = changed;
    this.store = null;
    this.running = null;
    this.open = false;
    this.ended = -Infinity;
  }

  /** Follow this store, or none if it is null. A stream that ended is opened again after a while, by the next call. */
  follow(store) {
    if (store !== this.store) {
      this.stop();
      this.store = store;
      this.ended = -Infinity;
    }
    if (store !== null && this.running === null && Date.now() - this.ended > AGAIN_AFTER) void this.run(store);
  }

  stop() {
    this.running?.abort();
    this.running = null;
    this.open = false;
    this.store = null;
  }

  async run(store) {
    const running = (this.running = new AbortController());
    let silence = null;
    try {
      const reader = await stream(`v1/stores/${encodeURIComponent(store)}/events`, running.signal);
      const decoder = new TextDecoder();
      let text = "";
      this.open = true;
      for (;;) {
        clearTimeout(silence);
        silence = setTimeout(() => running.abort(), SILENT_FOR);
        const { value, done } = await reader.read();
        if (done) break;
        const blocks = (text + decoder.decode(value, { stream: true })).split("\n\n");
        text = blocks.pop();
        if (blocks.some((block) => /^event: (?!end$)/m.test(block))) this.changed();
      }
    } catch {
      // Refused, cut off or stopped: polling goes on, and says what is wrong if that is of any use to a person.
    }
    clearTimeout(silence);
    if (this.running !== running) return;
    this.running = null;
    this.open = false;
    this.ended = Date.now();
  }
}
