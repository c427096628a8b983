import { afterEach, describe, expect, it, vi } from 'vitest';
import { askSecurityKey, makeSecurityKey, refusal, securityKeysWork } from './webauthn';

class Key {
  static parseCreationOptionsFromJSON = (o: object) => ({ made: o });
  static parseRequestOptionsFromJSON = (o: object) => ({ asked: o });
  constructor(readonly of: unknown) {}
  toJSON() {
    return { id: 'AQ', of: this.of };
  }
}

afterEach(() => vi.unstubAllGlobals());

function browser(answer: (o: { publicKey: unknown }) => unknown) {
  vi.stubGlobal('PublicKeyCredential', Key);
  vi.stubGlobal('navigator', {
    credentials: {
      create: async (o: { publicKey: unknown }) => answer(o),
      get: async (o: { publicKey: unknown }) => answer(o),
    },
  });
}

describe('security keys', () => {
  it('do not work in a browser that does not know their JSON form', () => {
    expect(securityKeysWork()).toBe(false);
    vi.stubGlobal('PublicKeyCredential', class {});
    expect(securityKeysWork()).toBe(false);
    vi.stubGlobal('PublicKeyCredential', Key);
    expect(securityKeysWork()).toBe(true);
  });

  it('get the options of the API and answer in its form', async () => {
    browser((o) => new Key(o.publicKey));
    expect(await makeSecurityKey('{"challenge":"c"}')).toBe('{"id":"AQ","of":{"made":{"challenge":"c"}}}');
    expect(await askSecurityKey('{"challenge":"d"}')).toBe('{"id":"AQ","of":{"asked":{"challenge":"d"}}}');
  });

  it('that nobody touched are a problem with words', async () => {
    browser(() => {
      throw new DOMException('', 'NotAllowedError');
    });
    await expect(askSecurityKey('{}')).rejects.toMatchObject({ code: 'webauthn_given_up' });
    browser(() => null);
    await expect(askSecurityKey('{}')).rejects.toMatchObject({ code: 'webauthn_given_up' });
  });

  it('name the other reasons of the browser', () => {
    expect(refusal(new DOMException('', 'InvalidStateError')).code).toBe('webauthn_known');
    expect(refusal(new DOMException('', 'SecurityError')).code).toBe('webauthn_unavailable');
    expect(refusal(new Error('else'))).toMatchObject({ code: 'console', detail: 'else' });
  });
});
