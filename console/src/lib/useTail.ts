import { useEffect, useMemo, useRef, useState } from 'react';
import type { ApiProblem } from '../api/problem';
import { followTopic, type Message, type TailState } from '../api/tail';

export interface Tail {
  state: TailState;
  problem: ApiProblem | undefined;
  /** Newest first, at most `keep`. */
  messages: readonly Message[];
  /** Messages seen, shown or not. */
  seen: number;
  /** Messages that were passed over: by the server because this reader was slow, or here because there were too many. */
  dropped: number;
  clear(): void;
}

export interface TailOptions {
  tag?: string;
  keep?: number;
  paused?: boolean;
  /** Called for every message, also one that is not kept. */
  onMessage?: (m: Message) => void;
}

const flushEveryMs = 150;

/**
 * Follows a topic while the component is shown. Messages are taken into the page in batches, and only the newest are
 * kept, so a busy topic costs bounded memory and a few renders a second.
 */
export function useTail(ns: string | undefined, topic: string, options: TailOptions = {}): Tail {
  const { tag, keep = 200, paused = false, onMessage } = options;
  const [state, setState] = useState<TailState>('connecting');
  const [problem, setProblem] = useState<ApiProblem>();
  const [messages, setMessages] = useState<readonly Message[]>([]);
  const [counts, setCounts] = useState({ seen: 0, dropped: 0 });
  const listener = useRef(onMessage);
  listener.current = onMessage;
  const pausedNow = useRef(paused);
  pausedNow.current = paused;

  useEffect(() => {
    if (!ns) {
      return;
    }
    const stop = new AbortController();
    let waiting: Message[] = [];
    let seen = 0;
    let dropped = 0;
    const timer = setInterval(() => {
      if (seen > 0 || dropped > 0) {
        const [s, d] = [seen, dropped];
        seen = 0;
        dropped = 0;
        setCounts((c) => ({ seen: c.seen + s, dropped: c.dropped + d }));
      }
      if (waiting.length > 0) {
        const batch = waiting.reverse();
        waiting = [];
        setMessages((m) => [...batch, ...m].slice(0, keep));
      }
    }, flushEveryMs);
    setMessages([]);
    setCounts({ seen: 0, dropped: 0 });
    setProblem(undefined);
    void followTopic(
      ns,
      topic,
      { tag },
      {
        message(m) {
          seen++;
          listener.current?.(m);
          if (pausedNow.current) {
            return;
          }
          waiting.push(m);
          if (waiting.length > keep) {
            waiting.shift();
            dropped++;
          }
        },
        dropped(n) {
          dropped += n;
        },
        state(to, why) {
          if (!stop.signal.aborted) {
            setState(to);
            setProblem(why);
          }
        },
      },
      stop.signal,
    );
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [ns, topic, tag, keep]);

  return useMemo(
    () => ({ state, problem, messages, ...counts, clear: () => setMessages([]) }),
    [state, problem, messages, counts],
  );
}
