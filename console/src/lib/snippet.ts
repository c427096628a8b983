import type { Schemas } from '../api/client';

export type ClientLanguage = Schemas['ClientLanguage'];

/** Every client that the server has a text for, in the order of the tabs. */
export const clientLanguages = ['go', 'java-remoting', 'java-grpc', 'python', 'node', 'cli'] as const;

// Fails to compile when the contract names a client that has no tab.
const _everyLanguageHasATab: [Exclude<ClientLanguage, (typeof clientLanguages)[number]>] extends [never]
  ? true
  : false = true;
void _everyLanguageHasATab;

/** The text with the secret in place of the server's placeholder. The server never learns what was put in. */
export function fillSecret(text: string, placeholder: string, secret: string | undefined): string {
  if (!secret || placeholder === '') {
    return text;
  }
  return text.split(placeholder).join(secret);
}

/** Marks messages that the console sent, so that a message from the user's own code can be told apart. */
export const consoleMark = { key: 'sent-from', value: 'sluice-console' } as const;

export function sentByConsole(message: { properties?: Record<string, string> }): boolean {
  return message.properties?.[consoleMark.key] === consoleMark.value;
}
