import { describe, expect, it } from 'vitest';
import { counting, families } from './permissions';

describe('permissions', () => {
  it('stand by what they are about', () => {
    expect(families(['topic:write', 'audit:read', 'topic:read'])).toEqual([
      { family: 'audit', read: 'audit:read', write: undefined },
      { family: 'topic', read: 'topic:read', write: 'topic:write' },
    ]);
  });

  it('count where they mean something', () => {
    const role = ['topic:write', 'acl:write', 'member:write'] as const;
    expect(counting(role, 'tenant')).toEqual([...role]);
    expect(counting(role, 'namespace')).toEqual(['topic:write', 'acl:write']);
    expect(counting(role, 'topic')).toEqual(['topic:write']);
    expect(counting(role, 'group')).toEqual([]);
  });
});
