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

/** How long ago a time was, counted from `now` (milliseconds by the server's clock); the time itself is in the title. */
export function age(text, now) {
  if (text === null || text === undefined) return "–";
  return make("time", { datetime: text, title: text }, `${span((now - Date.parse(text)) / 1000)} ago`);
}

export function clock(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString();
}

export function count(number, one, many) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
