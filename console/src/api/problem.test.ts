import { describe, expect, it } from 'vitest';
import { ApiProblem, asProblem, type ProblemKind, problemOf } from './problem';

function answer(status: number, headers: Record<string, string> = {}) {
  return new Response(null, { status, headers });
}

describe('problemOf', () => {
  it('takes everything from a problem document', () => {
    const p = problemOf(answer(400, { 'X-Request-Id': 'req_header' }), {
      type: '/errors/invalid',
      title: 'The request is not valid',
      status: 400,
      code: 'invalid',
      detail: 'queues is 0; it must be 1 to 64',
      request_id: 'req_body',
      field: 'queues',
      errors: [
        { field: 'queues', code: 'out_of_range', detail: 'queues is 0; it must be 1 to 64' },
        { field: 'name', code: 'required', detail: 'name is missing' },
      ],
    });
    expect(p).toMatchObject({ status: 400, code: 'invalid', requestId: 'req_body', field: 'queues', kind: 'invalid' });
    expect(p.fieldErrors().map((e) => e.field)).toEqual(['queues', 'name']);
  });

  it('blames the one field when there is no list', () => {
    const p = problemOf(answer(409), { code: 'conflict', title: 'Conflict', detail: 'orders exists', field: 'name' });
    expect(p.fieldErrors()).toEqual([{ field: 'name', code: 'conflict', detail: 'orders exists' }]);
  });

  it('keeps the request id of an answer that is no problem document', () => {
    const p = problemOf(answer(502, { 'X-Request-Id': 'req_1' }), '<html>Bad gateway</html>');
    expect(p).toMatchObject({ code: 'http_502', requestId: 'req_1', kind: 'unavailable', retriable: true });
  });

  it('survives fields of the wrong type', () => {
    const p = problemOf(answer(400), { code: 7, detail: ['x'], errors: [null, { field: 3 }], quota: 'many' });
    expect(p).toMatchObject({ code: 'http_400', detail: '', errors: [], quota: undefined });
  });

  it('reads when to come back from the body, else from the header', () => {
    expect(problemOf(answer(429, { 'Retry-After': '7' }), { code: 'rate_limited', retry_after: 3 }).retryAfter).toBe(3);
    expect(problemOf(answer(503, { 'Retry-After': '7' }), undefined).retryAfter).toBe(7);
  });

  it.each<[number, string, ProblemKind]>([
    [401, 'unauthenticated', 'signed_out'],
    [403, 'forbidden', 'refused'],
    [403, 'quota_exceeded', 'quota'],
    [404, 'not_found', 'missing'],
    [409, 'conflict', 'conflict'],
    [412, 'precondition_failed', 'conflict'],
    [422, 'unprocessable', 'invalid'],
    [429, 'rate_limited', 'rate'],
    [500, 'internal', 'failed'],
    [503, 'unavailable', 'unavailable'],
  ])('%d %s is %s', (status, code, kind) => {
    expect(problemOf(answer(status), { code }).kind).toBe(kind);
  });
});

describe('asProblem', () => {
  it('tells a dead network from a bug', () => {
    expect(asProblem(new TypeError('Failed to fetch')).kind).toBe('offline');
    expect(asProblem(new TypeError('x is not a function'))).toMatchObject({ code: 'console', kind: 'failed' });
    expect(asProblem('odd').detail).toBe('odd');
  });

  it('passes problems on and lets aborts through', () => {
    const p = new ApiProblem({ status: 404, code: 'not_found' });
    expect(asProblem(p)).toBe(p);
    expect(() => asProblem(new DOMException('gone', 'AbortError'))).toThrow('gone');
  });
});
