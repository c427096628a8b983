/**
 * The session of this tab. The access token lives in memory only; what outlives a reload is the refresh token in an
 * HttpOnly cookie that no script can read. One refresh runs at a time, in this tab by the shared promise and among tabs
 * by a web lock, for the server ends a session whose refresh token is used twice.
 */

export type SessionState = 'unknown' | 'signed_in' | 'signed_out' | 'expired';

export interface Grant {
  access_token: string;
  expires_in: number;
}

export interface SessionDeps {
  fetch: (request: Request) => Promise<Response>;
  /** Where POST refreshes the session. */
  refreshURL: string;
  now?: () => number;
  /** Runs one after another what several tabs want to do under one name. */
  lock?: <T>(name: string, run: () => Promise<T>) => Promise<T>;
  /** Remembers, without any secret, that this browser has a session worth refreshing. */
  memory?: { get(): boolean; set(on: boolean): void };
  randomUUID?: () => string;
}

/** A token this close to its end is replaced before it is used. */
const marginMs = 15_000;

export class Session {
  private token: string | null = null;
  private endsAt = 0;
  private refreshing: Promise<boolean> | null = null;
  private current: SessionState = 'unknown';
  private readonly listeners = new Set<() => void>();
  private readonly now: () => number;
  private readonly deps: SessionDeps;

  constructor(deps: SessionDeps) {
    this.deps = deps;
    this.now = deps.now ?? Date.now;
  }

  get state(): SessionState {
    return this.current;
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Takes the tokens of a sign-in, a verification or a refresh. */
  adopt(grant: Grant): void {
    this.token = grant.access_token;
    this.endsAt = this.now() + grant.expires_in * 1000;
    this.deps.memory?.set(true);
    this.move('signed_in');
  }

  /** Forgets the token, because the user left. */
  drop(): void {
    this.token = null;
    this.endsAt = 0;
    this.deps.memory?.set(false);
    this.move('signed_out');
  }

  /** Makes the state known at the start of the page: refreshes when there was a session, else says signed out. */
  async resume(): Promise<SessionState> {
    if (this.current !== 'unknown') {
      return this.current;
    }
    if (this.deps.memory && !this.deps.memory.get()) {
      this.move('signed_out');
      return this.current;
    }
    await this.refresh();
    return this.current;
  }

  /**
   * Gets a new access token; true when there is one. Callers at the same time share one request. Only a plain refusal
   * ends the session: when the server cannot be reached, the failure is thrown and the session stays.
   */
  refresh(): Promise<boolean> {
    if (!this.refreshing) {
      this.refreshing = this.exchange().finally(() => {
        this.refreshing = null;
      });
    }
    return this.refreshing;
  }

  /** Sends a request as the user: with a token that is still good, and once more when the server calls it stale. */
  fetch = async (request: Request): Promise<Response> => {
    if (this.token !== null && this.now() >= this.endsAt - marginMs) {
      await this.refresh();
    }
    const used = this.token;
    if (used === null) {
      return this.deps.fetch(request);
    }
    const again = request.clone();
    const response = await this.deps.fetch(withToken(request, used));
    if (response.status !== 401) {
      return response;
    }
    // Another call may have renewed the token while this one was on its way; then its token is the one to try.
    const renewed = this.token !== null && this.token !== used ? true : await this.refresh();
    if (!renewed || this.token === null) {
      return response;
    }
    void response.body?.cancel();
    return this.deps.fetch(withToken(again, this.token));
  };

  private async exchange(): Promise<boolean> {
    const id = this.deps.randomUUID ?? (() => crypto.randomUUID());
    const lock = this.deps.lock ?? ((_, run) => run());
    const response = await lock('sluice-refresh', () =>
      this.deps.fetch(
        new Request(this.deps.refreshURL, {
          method: 'POST',
          credentials: 'same-origin',
          headers: { 'Idempotency-Key': id(), Accept: 'application/json' },
        }),
      ),
    );
    if (response.ok) {
      this.adopt((await response.json()) as Grant);
      return true;
    }
    void response.body?.cancel();
    if (response.status >= 500 || response.status === 429) {
      throw new TypeError(`network: refresh answered ${response.status}`);
    }
    const had = this.token !== null;
    this.token = null;
    this.deps.memory?.set(false);
    // A user at work is asked to sign in again where they are, so that a half-filled form is not lost.
    this.move(had ? 'expired' : 'signed_out');
    return false;
  }

  private move(to: SessionState): void {
    if (this.current === to) {
      return;
    }
    this.current = to;
    for (const listener of [...this.listeners]) {
      listener();
    }
  }
}

function withToken(request: Request, token: string): Request {
  const headers = new Headers(request.headers);
  headers.set('Authorization', `Bearer ${token}`);
  return new Request(request, { headers });
}
