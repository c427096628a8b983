/** One server-sent event. `id` is the last id seen, as the format says. */
export interface SseEvent {
  event: string;
  data: string;
  id: string;
}

/**
 * Reads server-sent events from text that arrives in pieces cut anywhere, also inside a line end. It holds at most one
 * unfinished event; one that grows over `maxBytes` characters is an error, so that a lying stream cannot fill the tab.
 */
export class SseParser {
  private buffer = '';
  private event = '';
  private data: string[] = [];
  private held = 0;
  private lastId = '';
  private begun = false;
  private retryMs: number | undefined;
  private readonly maxBytes: number;

  constructor(maxBytes = 16 << 20) {
    this.maxBytes = maxBytes;
  }

  /** The time that the server asks to wait before connecting again, when it asked. */
  get retry(): number | undefined {
    return this.retryMs;
  }

  push(piece: string): SseEvent[] {
    this.buffer += piece;
    if (!this.begun && this.buffer.length > 0) {
      this.begun = true;
      if (this.buffer.charCodeAt(0) === 0xfeff) {
        this.buffer = this.buffer.slice(1);
      }
    }
    const out: SseEvent[] = [];
    let start = 0;
    for (;;) {
      const end = this.lineEnd(start);
      if (end < 0) {
        break;
      }
      this.line(this.buffer.slice(start, end), out);
      start = this.buffer[end] === '\r' && this.buffer[end + 1] === '\n' ? end + 2 : end + 1;
    }
    this.buffer = this.buffer.slice(start);
    if (this.buffer.length + this.held > this.maxBytes) {
      throw new Error(`an event is larger than ${this.maxBytes} characters`);
    }
    return out;
  }

  private lineEnd(from: number): number {
    for (let i = from; i < this.buffer.length; i++) {
      const c = this.buffer[i];
      if (c === '\n') {
        return i;
      }
      if (c === '\r') {
        // A carriage return at the very end may be the first half of a pair; the next piece tells.
        return i + 1 < this.buffer.length ? i : -1;
      }
    }
    return -1;
  }

  private line(line: string, out: SseEvent[]): void {
    if (line === '') {
      if (this.data.length > 0) {
        out.push({ event: this.event || 'message', data: this.data.join('\n'), id: this.lastId });
      }
      this.event = '';
      this.data = [];
      this.held = 0;
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) {
      return;
    }
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) {
      value = value.slice(1);
    }
    switch (field) {
      case 'event':
        this.event = value;
        break;
      case 'data':
        this.data.push(value);
        this.held += value.length;
        break;
      case 'id':
        if (!value.includes('\0')) {
          this.lastId = value;
        }
        break;
      case 'retry':
        if (/^\d+$/.test(value)) {
          this.retryMs = Number(value);
        }
        break;
    }
  }
}
