import { describe, expect, it } from 'vitest';
import type { Schemas } from '../api/client';
import { contains, fits, mayDo, mayGive } from './may';

const now = Date.parse('2026-09-01T08:00:00Z');

function right(scope: Schemas['RoleScope'], permissions: string[], expires_at?: string): Schemas['MeRight'] {
  return { role: 'developer', scope, permissions, ...(expires_at ? { expires_at } : {}) };
}

const orders = { kind: 'topic', namespace_id: 'ns1', pattern: 'orders*' } as const;
const shop = { kind: 'group', namespace_id: 'ns1', pattern: 'shop' } as const;
const ns1 = { kind: 'namespace', namespace_id: 'ns1' } as const;

describe('mayDo', () => {
  it('is the role in every part', () => {
    const me = { permissions: ['topic:write'], bindings: [] };
    expect(mayDo(me, 'topic:write')).toBe(true);
    expect(mayDo(me, 'topic:write', { ns: 'ns1', topic: 'orders' })).toBe(true);
    expect(mayDo(me, 'acl:write', { ns: 'ns1' })).toBe(false);
  });

  it.each([
    // what is bound, permission, part, answer
    [ns1, 'topic:write', { ns: 'ns1' }, true],
    [ns1, 'topic:write', { ns: 'ns1', topic: 'any' }, true],
    [ns1, 'topic:write', { ns: 'ns2' }, false],
    [ns1, 'topic:write', {}, false],
    [ns1, 'member:write', {}, false],
    [ns1, 'member:write', { ns: 'ns1' }, false],
    [ns1, 'namespace:write', {}, false],
    [ns1, 'namespace:write', { ns: 'ns1' }, true],
    [ns1, 'namespace:read', {}, true],
    [ns1, 'key:write', {}, true],
    [orders, 'topic:write', { ns: 'ns1' }, true],
    [orders, 'topic:write', { ns: 'ns1', topic: 'orders-eu' }, true],
    [orders, 'topic:write', { ns: 'ns1', topic: 'other' }, false],
    [orders, 'topic:write', { ns: 'ns2', topic: 'orders-eu' }, false],
    [orders, 'group:write', { ns: 'ns1' }, false],
    [orders, 'acl:write', { ns: 'ns1' }, false],
    [orders, 'namespace:read', { ns: 'ns1' }, true],
    [orders, 'key:write', {}, true],
    [shop, 'group:write', { ns: 'ns1', group: 'shop' }, true],
    [shop, 'group:write', { ns: 'ns1', group: 'shop2' }, false],
    [shop, 'topic:write', { ns: 'ns1', topic: 'shop' }, false],
    [{ kind: 'tenant' } as const, 'member:write', {}, true],
  ])('%j and %s in %j: %s', (scope, permission, part, answer) => {
    const me = { permissions: [], bindings: [right(scope, [permission])] };
    expect(mayDo(me, permission, part, now)).toBe(answer);
    expect(mayDo({ permissions: [], bindings: [right(scope, ['usage:read'])] }, permission, part, now)).toBe(false);
  });

  it('ends with the binding', () => {
    const me = (end: string) => ({ permissions: [], bindings: [right(ns1, ['acl:write'], end)] });
    expect(mayDo(me('2026-09-01T08:00:01Z'), 'acl:write', { ns: 'ns1' }, now)).toBe(true);
    expect(mayDo(me('2026-09-01T08:00:00Z'), 'acl:write', { ns: 'ns1' }, now)).toBe(false);
  });
});

describe('fits', () => {
  it('takes names, beginnings and all', () => {
    expect([fits('a', 'a'), fits('a', 'ab'), fits('a*', 'ab'), fits('*', 'ab'), fits('a*', 'ba')]).toEqual([
      true,
      false,
      true,
      true,
      false,
    ]);
  });
});

describe('giving a role', () => {
  it('knows which part lies in which', () => {
    expect(contains({ kind: 'tenant' }, ns1)).toBe(true);
    expect(contains(ns1, { kind: 'tenant' })).toBe(false);
    expect(contains(ns1, orders)).toBe(true);
    expect(contains(ns1, { ...orders, namespace_id: 'ns2' })).toBe(false);
    expect(contains(orders, ns1)).toBe(false);
    expect(contains(orders, { ...orders, pattern: 'orders-eu*' })).toBe(true);
    expect(contains(orders, { ...orders, pattern: 'ord*' })).toBe(false);
    expect(contains(orders, { ...orders, kind: 'group' })).toBe(false);
    expect(contains(shop, shop)).toBe(true);
  });

  it('needs all that the role permits, in all of the part', () => {
    const me = {
      permissions: ['topic:read'],
      bindings: [
        right(ns1, ['topic:write', 'acl:write']),
        right({ kind: 'tenant' }, ['key:read'], '2026-08-01T08:00:00Z'),
      ],
    };
    expect(mayGive(me, ['topic:read', 'topic:write'], orders, now)).toBe(true);
    expect(mayGive(me, ['topic:read'], { kind: 'tenant' }, now)).toBe(true);
    expect(mayGive(me, ['topic:write'], { kind: 'tenant' }, now)).toBe(false);
    expect(mayGive(me, ['key:read'], ns1, now)).toBe(false);
    expect(mayGive(me, [], { kind: 'tenant' }, now)).toBe(true);
  });
});
