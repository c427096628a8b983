import { describe, expect, it, vi } from 'vitest';
import { StepUp } from './stepup';

function setUp(refusals = 1) {
  const keys: (string | null)[] = [];
  const bodies: string[] = [];
  const send = vi.fn(async (r: Request) => {
    keys.push(r.headers.get('Idempotency-Key'));
    bodies.push(await r.text());
    return keys.length <= refusals
      ? Response.json({ code: 'step_up_required' }, { status: 403 })
      : Response.json({ ok: true });
  });
  const stepUp = new StepUp();
  let n = 0;
  return { stepUp, send, keys, bodies, fetch: stepUp.around(send, () => `new-${++n}`) };
}

const call = () =>
  new Request('http://sluice.test/v1/invitations', {
    method: 'POST',
    body: '{"email":"ada@example.com"}',
    headers: { 'Idempotency-Key': 'first' },
  });
const settled = () => new Promise((r) => setTimeout(r));

describe('StepUp', () => {
  it('asks, then makes the same call again under a new key', async () => {
    const s = setUp();
    s.stepUp.subscribe(() => {});
    const answer = s.fetch(call());
    await vi.waitFor(() => expect(s.stepUp.open).toBe(true));
    s.stepUp.answer(true);
    expect((await answer).status).toBe(200);
    expect(s.stepUp.open).toBe(false);
    expect(s.keys).toEqual(['first', 'new-1']);
    expect(s.bodies[1]).toBe(s.bodies[0]);
  });

  it('hands the refusal on, still readable, when the user turns away', async () => {
    const s = setUp();
    s.stepUp.subscribe(() => {});
    const answer = s.fetch(call());
    await vi.waitFor(() => expect(s.stepUp.open).toBe(true));
    s.stepUp.answer(false);
    expect(await (await answer).json()).toEqual({ code: 'step_up_required' });
    expect(s.send).toHaveBeenCalledTimes(1);
  });

  it('asks once for calls at the same time', async () => {
    const s = setUp(2);
    let asked = 0;
    s.stepUp.subscribe(() => {
      asked += s.stepUp.open ? 1 : 0;
    });
    const both = [s.fetch(call()), s.fetch(call())];
    await vi.waitFor(() => expect(s.stepUp.open).toBe(true));
    await settled();
    s.stepUp.answer(true);
    expect((await Promise.all(both)).map((r) => r.status)).toEqual([200, 200]);
    expect(asked).toBe(1);
  });

  it('repeats a call only once', async () => {
    const s = setUp(9);
    s.stepUp.subscribe(() => {});
    const answer = s.fetch(call());
    await vi.waitFor(() => expect(s.stepUp.open).toBe(true));
    s.stepUp.answer(true);
    expect((await answer).status).toBe(403);
    expect(s.send).toHaveBeenCalledTimes(2);
  });

  it('asks nobody where nobody listens, and leaves other refusals alone', async () => {
    const s = setUp();
    expect((await s.fetch(call())).status).toBe(403);
    const other = new StepUp();
    other.subscribe(() => {});
    const fetch = other.around(
      async () => Response.json({ code: 'permission_denied' }, { status: 403 }),
      () => '',
    );
    expect((await fetch(call())).status).toBe(403);
    expect(other.open).toBe(false);
  });
});
