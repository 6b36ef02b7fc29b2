/** Reads `text/event-stream` (WHATWG HTML, "Interpreting an event stream") from pieces of any size. */

const LINE_END = /\r\n|\n|\r/;

export class EventParser {
  #decoder = new TextDecoder(); // holds back a character that is split over two pieces
  #endedInCr = false;
  #rest = "";
  #data = [];

  /** Take some bytes; return the data of each event that they complete. An event without its blank line is none. */
  feed(bytes) {
    let text = this.#decoder.decode(bytes, { stream: true });
    if (text === "") return [];
    if (this.#endedInCr && text.startsWith("\n")) text = text.slice(1);
    this.#endedInCr = text.endsWith("\r");
    const lines = text.split(LINE_END);
    lines[0] = this.#rest + lines[0];
    this.#rest = lines.pop();
    return lines.flatMap((line) => this.#take(line));
  }

  #take(line) {
    if (line === "") {
      const data = this.#data.splice(0);
      return data.length ? [data.join("\n")] : [];
    }
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (field === "data") this.#data.push(value); // a comment has the empty field name
    return [];
  }
}

/** Yield each event's object. `heard` is called for every piece, pings included. */
export async function* frames(stream, heard) {
  const parser = new EventParser();
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      for (const data of parser.feed(value)) yield JSON.parse(data);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
