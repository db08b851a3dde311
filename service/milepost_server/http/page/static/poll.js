// Ask again and again: every few seconds, ever more rarely while it fails, and not at all while nobody looks.

const INTERVAL = 5000;
const SLOW_INTERVAL = 10000; // while events say what changes
const AT_MOST_EVERY = 2000;
const LONGEST = 60000;

export class Poller {
  /** `load(signal)` asks once. `changed()` is called whenever there is something else to say; `state` says what. */
  constructor(load, changed) {
    this.load = load;
    this.changed = changed;
    this.state = { data: null, at: null, error: null, since: null, next: null };
    this.failures = 0;
    this.slow = false;
    this.again = false;
    this.asked = -Infinity;
    this.timer = null;
    this.running = null;
    document.addEventListener("visibilitychange", () => this.now());
    window.addEventListener("online", () => this.now());
  }

  /** Forget what was loaded, and load something else. */
  restart() {
    this.state = { data: null, at: null, error: null, since: null, next: null };
    this.failures = 0;
    this.now();
  }

  get interval() {
    return this.slow ? SLOW_INTERVAL : INTERVAL;
  }

  /** Ask soon, since something changed; many changes in a row make few requests. */
  soon() {
    if (document.hidden) return;
    if (this.running !== null) {
      this.again = true; // what is being loaded may be from before the change
      return;
    }
    clearTimeout(this.timer);
    const wait = this.asked + AT_MOST_EVERY - Date.now();
    if (wait <= 0) this.now();
    else this.timer = setTimeout(() => this.now(), wait);
  }

  /** Ask at once; while nobody looks, ask no more. */
  now() {
    this.pause();
    if (!document.hidden) void this.once();
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.running?.abort();
    this.running = null;
  }

  async once() {
    const running = (this.running = new AbortController());
    this.asked = Date.now();
    this.again = false;
    let wait = null;
    try {
      const data = await this.load(running.signal);
      if (running.signal.aborted) return;
      this.failures = 0;
      this.state = { data, at: Date.now(), error: null, since: null, next: null };
    } catch (error) {
      if (running.signal.aborted) return;
      this.failures += 1;
      // Spread out, so that many pages do not all come back at once.
      const backoff = Math.min(LONGEST, INTERVAL * 2 ** (this.failures - 1)) * (0.8 + 0.4 * Math.random());
      wait = Math.max(backoff, (error.after ?? 0) * 1000);
      this.state = { ...this.state, error, since: this.state.since ?? Date.now(), next: Date.now() + wait };
    }
    this.running = null;
    this.changed();
    this.timer = setTimeout(() => this.now(), wait ?? this.interval);
    if (this.again && wait === null) this.soon();
  }
}
