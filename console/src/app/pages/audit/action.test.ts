import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import en from '../../../i18n/console/en.json';
import zh from '../../../i18n/console/zh.json';
import { actionText, partsOf, spaced } from './action';

function words(texts: typeof en) {
  return (key: string) => {
    const [family, name] = key.split('.') as ['audit_action', keyof (typeof texts)['audit_action']];
    return texts[family][name] as string | undefined;
  };
}

describe('an action', () => {
  it('is said in words', () => {
    expect(actionText('createRoleBinding', words(en))).toBe('create role binding');
    expect(actionText('deleteWorkloadIdentity', words(en))).toBe('delete workload identity');
    expect(actionText('listTopics', words(en))).toBe('look at topic');
    expect(actionText('signInMfa', words(en))).toBe('second step of a sign-in');
    expect(actionText('createRoleBinding', words(zh))).toBe('创建角色绑定');
    expect(actionText('publish', words(en))).toBe('send');
  });

  it('that has no words is still readable', () => {
    expect(actionText('doSomethingNew', words(en))).toBe('do something new');
    expect(actionText('createNewThing', words(zh))).toBe('create new thing');
    expect(spaced('readHTTPLog')).toBe('read HTTP log');
  });

  it('has a verb and an object', () => {
    expect(partsOf('batchGetTopics')).toEqual({ verb: 'batchGet', noun: 'topic' });
    expect(partsOf('listWorkloadIdentities')).toEqual({ verb: 'list', noun: 'workloadIdentity' });
    expect(partsOf('listAccess')).toEqual({ verb: 'list', noun: 'access' });
    expect(partsOf('getter')).toBeUndefined();
  });

  it('of those that change who may do what has words in both languages', () => {
    const schema = readFileSync(join(import.meta.dirname, '../../../api/schema.d.ts'), 'utf8');
    const operations = schema.slice(schema.indexOf('export interface operations'));
    const named = [...operations.matchAll(/^ {4}(\w+): \{$/gm)].map((m) => m[1] as string);
    const changing = named.filter((a) => /(Acl|ApiKey|Role|RoleBinding|Member|Identity|IdentityProvider)$/.test(a));
    expect(changing.length).toBeGreaterThan(20);
    for (const a of changing) {
      expect(actionText(a, words(zh)), a).toMatch(/\p{Script=Han}/u);
    }
  });
});
