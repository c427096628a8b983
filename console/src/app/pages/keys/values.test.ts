import { describe, expect, it } from 'vitest';
import { broughtSecret, canRotate, endOf, fromScopes, latestEnd, toCreate, toScopes, toUpdate } from './values';

const now = Date.parse('2026-09-01T08:00:00.000Z');

describe('keys', () => {
  it('are made with addresses and an end for each scope', () => {
    const scopes = [
      { namespace_id: 'ns1', permissions: ['PUB' as const], cidrs: ['10.0.0.0/8'], expires_at: '2026-10-01T10:00' },
      { permissions: ['SUB' as const] },
    ];
    const made = toCreate({ name: ' shop ', scopes, allowed_cidrs: [] });
    expect(made).toEqual({
      name: 'shop',
      scopes: [
        {
          namespace_id: 'ns1',
          permissions: ['PUB'],
          cidrs: ['10.0.0.0/8'],
          expires_at: new Date('2026-10-01T10:00').toISOString(),
        },
      ],
    });
  });

  it('are changed as a whole, so that what was emptied is emptied', () => {
    expect(toUpdate({ name: 'a', scopes: [] })).toEqual({
      name: 'a',
      description: '',
      scopes: [],
      allowed_cidrs: [],
      expires_at: null,
      disabled: false,
    });
  });

  it('keep their scopes through the form', () => {
    const scope = {
      namespace_id: 'ns1',
      permissions: ['SUB' as const],
      groups: ['g*'],
      expires_at: '2026-10-01T10:00:05.000Z',
    };
    expect(toScopes(fromScopes([scope]))).toEqual([scope]);
  });

  it('end by their own date or by their age', () => {
    const key = { created_at: '2026-09-01T08:00:00.000Z', expires_at: '2026-09-03T08:00:00.000Z' };
    expect(endOf(key, undefined)).toEqual({ at: key.expires_at, by: 'key' });
    expect(endOf(key, '24h')).toEqual({ at: '2026-09-02T08:00:00.000Z', by: 'age' });
    expect(endOf({ ...key, expires_at: '2026-09-02T08:00:00.000Z' }, '24h')?.by).toBe('age');
    expect(endOf(key, '72h')).toEqual({ at: key.expires_at, by: 'key' });
    expect(endOf({ created_at: key.created_at }, undefined)).toBeUndefined();
    expect(endOf({ created_at: key.created_at, workload_identity_id: 'wid_1' }, '24h')).toBeUndefined();
    expect(latestEnd('24h', now)).toBe('2026-09-02T08:00:00.000Z');
    expect(latestEnd(undefined, now)).toBeUndefined();
  });
});

describe('a rotation', () => {
  it('is for keys that live and have no successor', () => {
    expect(canRotate({ state: 'active' })).toBe(true);
    expect(canRotate({ state: 'disabled' })).toBe(true);
    expect(canRotate({ state: 'expired' })).toBe(false);
    expect(canRotate({ state: 'revoked' })).toBe(false);
    expect(canRotate({ state: 'active', replaced_by_key_id: 'slk_1' })).toBe(false);
    expect(canRotate({ state: 'active', workload_identity_id: 'wid_1' })).toBe(false);
  });
});

describe('a secret of one’s own', () => {
  it('has 32 characters at least and is not taken for one of ours', () => {
    expect(broughtSecret.test('a'.repeat(31))).toBe(false);
    expect(broughtSecret.test('a'.repeat(32))).toBe(true);
    expect(broughtSecret.test(`sls_${'a'.repeat(32)}`)).toBe(false);
    expect(broughtSecret.test(`${'a'.repeat(32)} `)).toBe(false);
  });
});
