// Browsers start no Worker for a page that is read from a disk (file:), and the theme searches in one. There, this takes
// its place: a hidden frame runs the script, and each side is given the other's messages.
"use strict";
if (location.protocol === "file:") {
  const load = (page, address) =>
    new Promise((done, failed) => {
      const script = page.createElement("script");
      script.src = address;
      script.onload = done;
      script.onerror = failed;
      page.body.append(script);
    });

  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      const empty = new Promise((done) => this.frame.addEventListener("load", done, { once: true }));
      document.body.append(this.frame);
      this.ready = empty.then(() => {
        const inside = this.frame.contentWindow;
        inside.postMessage = (data) => this.receive(new MessageEvent("message", { data }));
        inside.importScripts = (...addresses) =>
          addresses.reduce((before, each) => before.then(() => load(inside.document, each)), Promise.resolve());
        return load(inside.document, address);
      });
    }

    receive(event) {
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
