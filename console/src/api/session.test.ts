import { describe, expect, it, vi } from 'vitest';
import { Session, type SessionDeps } from './session';

const refreshURL = 'http://sluice.test/v1/auth/refresh';

/** A server that knows one good token at a time and counts what it is asked. */
class Server {
  good = 'token-1';
  refreshes = 0;
  refuse = false;
  down = false;
  calls: { url: string; token: string | null; key: string | null; body: string }[] = [];
  gate: Promise<void> = Promise.resolve();

  fetch = async (request: Request): Promise<Response> => {
    this.calls.push({
      url: request.url,
      token: request.headers.get('Authorization'),
      key: request.headers.get('Idempotency-Key'),
      body: await request.clone().text(),
    });
    if (request.url === refreshURL) {
      this.refreshes++;
      await this.gate;
      if (this.down) {
        return new Response(null, { status: 503 });
      }
      if (this.refuse) {
        return new Response('{}', { status: 401 });
      }
      this.good = `token-${this.refreshes + 1}`;
      return Response.json({ access_token: this.good, expires_in: 900 });
    }
    const ok = request.headers.get('Authorization') === `Bearer ${this.good}`;
    return ok ? Response.json({ ok: true }) : Response.json({ code: 'unauthenticated' }, { status: 401 });
  };
}

function setUp(more: Partial<SessionDeps> = {}) {
  const server = new Server();
  const clock = { now: 1_000_000 };
  const memory = { on: true, get: () => memory.on, set: (on: boolean) => (memory.on = on) };
  const session = new Session({ fetch: server.fetch, refreshURL, now: () => clock.now, memory, ...more });
  return { server, clock, memory, session };
}

function call(path: string, init?: RequestInit) {
  return new Request(`http://sluice.test${path}`, init);
}

describe('session', () => {
  it('sends the token it was given', async () => {
    const { server, session } = setUp();
    session.adopt({ access_token: 'token-1', expires_in: 900 });
    expect((await session.fetch(call('/v1/me'))).status).toBe(200);
    expect(server.calls.map((c) => c.token)).toEqual(['Bearer token-1']);
    expect(server.refreshes).toBe(0);
  });

  it('refreshes once for many calls that are refused at the same time, and each is made again', async () => {
    const { server, session } = setUp();
    session.adopt({ access_token: 'stale', expires_in: 900 });
    let open = () => {};
    server.gate = new Promise((r) => {
      open = r;
    });
    const all = ['/a', '/b', '/c'].map((p) => session.fetch(call(p)));
    await vi.waitFor(() => expect(server.refreshes).toBe(1));
    open();
    expect((await Promise.all(all)).map((r) => r.status)).toEqual([200, 200, 200]);
    expect(server.refreshes).toBe(1);
  });

  it('makes a POST again with the same body and the same Idempotency-Key', async () => {
    const { server, session } = setUp();
    session.adopt({ access_token: 'stale', expires_in: 900 });
    const response = await session.fetch(
      call('/v1/topics', { method: 'POST', body: '{"name":"orders"}', headers: { 'Idempotency-Key': 'one' } }),
    );
    expect(response.status).toBe(200);
    const posts = server.calls.filter((c) => c.url.endsWith('/v1/topics'));
    expect(posts.map((c) => [c.key, c.body])).toEqual([
      ['one', '{"name":"orders"}'],
      ['one', '{"name":"orders"}'],
    ]);
  });

  it('replaces a token that is about to end before it is used', async () => {
    const { server, clock, session } = setUp();
    session.adopt({ access_token: 'token-1', expires_in: 60 });
    clock.now += 50_000;
    expect((await session.fetch(call('/v1/me'))).status).toBe(200);
    expect(server.calls.map((c) => c.url)).toEqual([refreshURL, 'http://sluice.test/v1/me']);
  });

  it('expires when the refresh is refused, and does not try for ever', async () => {
    const { server, memory, session } = setUp();
    session.adopt({ access_token: 'stale', expires_in: 900 });
    server.refuse = true;
    const states: string[] = [];
    session.subscribe(() => states.push(session.state));
    expect((await session.fetch(call('/v1/me'))).status).toBe(401);
    expect(states).toEqual(['expired']);
    expect(memory.on).toBe(false);
    expect(server.refreshes).toBe(1);
  });

  it('stays when the server is only down', async () => {
    const { server, memory, session } = setUp();
    session.adopt({ access_token: 'stale', expires_in: 900 });
    server.down = true;
    await expect(session.fetch(call('/v1/me'))).rejects.toThrow(/network/);
    expect(session.state).toBe('signed_in');
    expect(memory.on).toBe(true);
    server.down = false;
    expect((await session.fetch(call('/v1/me'))).status).toBe(200);
  });

  it('finds itself again after a reload, and asks nothing when there was no session', async () => {
    const { server, session } = setUp();
    expect(await session.resume()).toBe('signed_in');
    expect(server.refreshes).toBe(1);

    const other = setUp();
    other.memory.on = false;
    expect(await other.session.resume()).toBe('signed_out');
    expect(other.server.calls).toEqual([]);
  });

  it('refreshes under a lock that tabs share, with a key of its own', async () => {
    const names: string[] = [];
    const { server, session } = setUp({
      lock: (name, run) => {
        names.push(name);
        return run();
      },
      randomUUID: () => 'uuid',
    });
    await session.refresh();
    expect(names).toEqual(['sluice-refresh']);
    expect(server.calls[0]?.key).toBe('uuid');
  });

  it('forgets everything at the sign-out', async () => {
    const { server, memory, session } = setUp();
    session.adopt({ access_token: 'token-1', expires_in: 900 });
    session.drop();
    expect(session.state).toBe('signed_out');
    expect(memory.on).toBe(false);
    await session.fetch(call('/v1/me'));
    expect(server.calls.at(-1)?.token).toBeNull();
  });
});
