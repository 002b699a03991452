// Browsers start no worker on a page opened from a folder: the search runs in a hidden frame of the page there.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = address;
      const loaded = new Promise((done) => script.addEventListener("load", done));
      inside.document.head.append(script);
      this.postMessage = async (data) => {
        await loaded;
        inside.dispatchEvent(new MessageEvent("message", { data }));
      };
    }
  };
}
