import { describe, expect, it } from 'vitest';
import { changed, consequences } from './demands';

const none = { mfa_required: false, sso_required: false };

describe('what an organisation demands', () => {
  it('is sent as far as it was changed', () => {
    expect(changed(none, none)).toBeUndefined();
    expect(changed(none, { ...none, mfa_required: true })).toEqual({ mfa_required: true });
    expect(changed({ ...none, max_key_age: '24h' }, none)).toEqual({ max_key_age: null });
  });

  it('hits somebody when it becomes more', () => {
    expect(consequences(none, { mfa_required: true, sso_required: true, max_key_age: '24h' })).toEqual([
      'mfa',
      'sso',
      'age',
    ]);
    expect(consequences({ mfa_required: true, sso_required: true, max_key_age: '24h' }, none)).toEqual([]);
    expect(consequences({ ...none, max_key_age: '24h' }, { ...none, max_key_age: '48h' })).toEqual([]);
    expect(consequences({ ...none, max_key_age: '48h' }, { ...none, max_key_age: '24h' })).toEqual(['age']);
  });
});
