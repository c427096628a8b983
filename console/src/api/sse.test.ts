import { describe, expect, it } from 'vitest';
import { type SseEvent, SseParser } from './sse';

const stream =
  '\uFEFF: hello\r\n' +
  'event: ready\ndata: {}\n\n' +
  'id: 7\r\nevent: message\r\ndata: {"body":"a\\nb"}\r\n\r\n' +
  'retry: 2500\rdata: one\rdata:two\rdata\r\r' +
  ': 15 s\n\n' +
  'event: empty\n\n' +
  'unknown: x\nid: 8\ndata: 你好\n\n' +
  'data: cut off';

const want: SseEvent[] = [
  { event: 'ready', data: '{}', id: '' },
  { event: 'message', data: '{"body":"a\\nb"}', id: '7' },
  { event: 'message', data: 'one\ntwo\n', id: '7' },
  { event: 'message', data: '你好', id: '8' },
];

describe('SseParser', () => {
  it('reads all line ends, comments and fields', () => {
    const p = new SseParser();
    expect(p.push(stream)).toEqual(want);
    expect(p.retry).toBe(2500);
  });

  it('reads the same however the stream is cut', () => {
    for (let at = 1; at < stream.length; at++) {
      const p = new SseParser();
      expect([...p.push(stream.slice(0, at)), ...p.push(stream.slice(at))], `cut at ${at}`).toEqual(want);
    }
    const p = new SseParser();
    expect([...stream].flatMap((c) => p.push(c))).toEqual(want);
  });

  it('ignores an id with a zero byte and a retry that is no number', () => {
    const p = new SseParser();
    expect(p.push('id: a\0b\nretry: soon\ndata: x\n\n')).toEqual([{ event: 'message', data: 'x', id: '' }]);
    expect(p.retry).toBeUndefined();
  });

  it('refuses an event that does not end, by line and by many lines', () => {
    expect(() => new SseParser(100).push(`data: ${'x'.repeat(200)}`)).toThrow(/larger than 100/);
    const p = new SseParser(100);
    expect(() => {
      for (let i = 0; i < 50; i++) {
        p.push('data: 1234567890\n');
      }
    }).toThrow(/larger than 100/);
  });
});
