import { type Schemas, serverURL, session } from './client';
import { ApiProblem, asProblem, type ProblemBody, problemOf } from './problem';
import { SseParser } from './sse';

export type Message = Schemas['Message'];

export type TailState = 'connecting' | 'open' | 'waiting' | 'closed' | 'failed';

export interface TailHandlers {
  message(m: Message): void;
  dropped(messages: number): void;
  state(state: TailState, problem?: ApiProblem): void;
}

const firstWaitMs = 500;
const longestWaitMs = 15_000;

/**
 * Follows a topic until the signal aborts. EventSource cannot send the Authorization header, so this reads the stream
 * with fetch. A broken stream is taken up again from the last event seen, waiting longer each time; a refusal ends it.
 */
export async function followTopic(
  ns: string,
  topic: string,
  options: { since?: string; tag?: string },
  handlers: TailHandlers,
  signal: AbortSignal,
): Promise<void> {
  let lastId = '';
  let wait = firstWaitMs;
  const url = new URL(serverURL(`/v1/namespaces/${encodeURIComponent(ns)}/topics/${encodeURIComponent(topic)}/tail`));
  if (options.since) {
    url.searchParams.set('since', options.since);
  }
  if (options.tag) {
    url.searchParams.set('tag', options.tag);
  }
  while (!signal.aborted) {
    handlers.state('connecting');
    try {
      const headers = new Headers({ Accept: 'text/event-stream' });
      if (lastId) {
        headers.set('Last-Event-ID', lastId);
      }
      const response = await session.fetch(new Request(url, { headers, signal, cache: 'no-store' }));
      if (!response.ok) {
        throw problemOf(response, await response.json().catch(() => undefined));
      }
      await readEvents(
        response,
        (id) => {
          lastId = id || lastId;
          wait = firstWaitMs;
        },
        handlers,
      );
    } catch (err) {
      if (signal.aborted) {
        break;
      }
      const problem = asProblem(err);
      if (!problem.retriable && problem.status >= 400 && problem.status < 500) {
        handlers.state('failed', problem);
        return;
      }
    }
    if (signal.aborted) {
      break;
    }
    handlers.state('waiting');
    await pause(wait * (0.75 + Math.random() / 2), signal);
    wait = Math.min(wait * 2, longestWaitMs);
  }
  handlers.state('closed');
}

async function readEvents(response: Response, seen: (id: string) => void, handlers: TailHandlers): Promise<void> {
  if (!response.body) {
    return;
  }
  const parser = new SseParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      for (const event of parser.push(value)) {
        seen(event.id);
        switch (event.event) {
          case 'ready':
            handlers.state('open');
            break;
          case 'message':
            handlers.message(JSON.parse(event.data) as Message);
            break;
          case 'dropped':
            handlers.dropped(Number((JSON.parse(event.data) as { messages?: string }).messages ?? 0));
            break;
          case 'problem': {
            const p = JSON.parse(event.data) as ProblemBody;
            throw new ApiProblem({ ...p, requestId: p.request_id, retryAfter: p.retry_after });
          }
        }
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
    signal.addEventListener('abort', done);
  });
}
