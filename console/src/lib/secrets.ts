/**
 * Secrets of keys that were made in this session. They live in this module only, never in the address, the page's
 * storage or the query cache, and are gone with the tab or the sign-out.
 */
const secrets = new Map<string, string>();

export function rememberSecret(keyId: string, secret: string): void {
  secrets.set(keyId, secret);
}

export function secretOf(keyId: string | undefined): string | undefined {
  return keyId ? secrets.get(keyId) : undefined;
}

/** The key last made in this session that still has its secret here. */
export function newestKeyWithSecret(): string | undefined {
  return [...secrets.keys()].at(-1);
}

export function forgetSecrets(): void {
  secrets.clear();
}
