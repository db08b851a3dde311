// Say sizes, spans of time and ages in words that are short.

import { make } from "./dom.js";

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"];

export function size(bytes) {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`;
}

export function span(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} days`;
}

/** A span of time that may be short, as between two batches. */
export function spacing(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 10 ? `${seconds.toFixed(1)} s` : span(seconds);
}

/** How long ago a time was, counted from `now` (milliseconds by the server's clock); the time itself is in the title. */
export function age(text, now) {
  if (text === null || text === undefined) return "–";
  const made = make("time", { datetime: text, title: new Date(text).toLocaleString(), "data-ago": true });
  made.textContent = ago(text, now);
  return made;
}

/** For how long something has been so. */
export function lasting(text, now) {
  if (text === null || text === undefined) return "an unknown time";
  return make("time", { datetime: text, title: new Date(text).toLocaleString() }, span((now - Date.parse(text)) / 1000));
}

export function ago(text, now) {
  return `${span((now - Date.parse(text)) / 1000)} ago`;
}

/** The day and time of something, the day only if it is not today. */
export function moment(milliseconds, now) {
  const then = new Date(milliseconds);
  const time = then.toLocaleTimeString();
  return then.toDateString() === new Date(now).toDateString() ? time : `${then.toLocaleDateString()} ${time}`;
}

export function clock(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString();
}

export function count(number, one, many) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
