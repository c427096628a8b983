import createClient, { type Middleware } from 'openapi-fetch';
import { asProblem, problemOf } from './problem';
import type { components, paths } from './schema';
import { Session } from './session';
import { codeOf, StepUp } from './stepup';

export type Schemas = components['schemas'];

// Built files lie in assets/, one level below the path that the console is served under.
const up = import.meta.env.DEV ? '/' : '..';
const root = new URL(up, import.meta.url);

/** The path that the console is served under, with a slash at the end. */
export const basePath = root.pathname;
const baseURL = root.href.replace(/\/$/, '');

/** Address of something this server serves outside the console, such as /v1 or /mailbox. */
export function serverURL(path: string): string {
  return baseURL + path;
}

const rememberedAs = 'sluice.session';

export const session = new Session({
  fetch: (request) => fetch(request),
  refreshURL: serverURL('/v1/auth/refresh'),
  lock: async (name, run) => (navigator.locks ? await navigator.locks.request(name, run) : await run()),
  memory: {
    get: () => localStorage.getItem(rememberedAs) === '1',
    set: (on) => (on ? localStorage.setItem(rememberedAs, '1') : localStorage.removeItem(rememberedAs)),
  },
});

const everyPostOnce: Middleware = {
  onRequest({ request }) {
    if (request.method === 'POST' && !request.headers.has('Idempotency-Key')) {
      request.headers.set('Idempotency-Key', newId());
    }
    return request;
  },
};

/** A random id; also where the page is served without TLS and browsers keep randomUUID away. */
export function newId(): string {
  if (typeof crypto.randomUUID === 'function') {
    return crypto.randomUUID();
  }
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}

/** Where the console learns that the user must prove again who they are. */
export const stepUp = new StepUp();

const enrolListeners = new Set<() => void>();

/** Calls the listener when the tenant asks for a second factor that the user does not have. */
export function onEnrolmentRequired(listener: () => void): () => void {
  enrolListeners.add(listener);
  return () => enrolListeners.delete(listener);
}

const tellsOfEnrolment: Middleware = {
  async onResponse({ response }) {
    if (response.status === 403 && (await codeOf(response)) === 'mfa_enrolment_required') {
      for (const l of [...enrolListeners]) {
        l();
      }
    }
    return undefined;
  },
};

export const api = createClient<paths>({ baseUrl: baseURL, fetch: stepUp.around(session.fetch, newId) });
api.use(everyPostOnce, tellsOfEnrolment);

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** The body of a good answer; anything else is thrown as an ApiProblem. */
export async function got<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch (err) {
    throw asProblem(err);
  }
  if (!answer.response.ok) {
    throw problemOf(answer.response, answer.error);
  }
  return answer.data as T;
}

/** The ETag of an object, for If-Match. */
export function etag(of: { revision: number }): string {
  return `"${of.revision}"`;
}

/** All items of a list that a selector needs whole. */
export async function allPages<T>(
  page: (token: string | undefined) => Promise<{ items: T[]; next_page_token?: string }>,
): Promise<T[]> {
  const all: T[] = [];
  let token: string | undefined;
  do {
    const answer = await page(token);
    all.push(...answer.items);
    token = answer.next_page_token;
  } while (token);
  return all;
}
