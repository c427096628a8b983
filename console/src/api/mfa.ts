import { api, got, type Schemas } from './client';

export type SecondFactor = { code: string } | { recovery_code: string } | { credential: string };

/** Six digits of an app, or else a recovery code, as the API takes them. */
export function secondFactor(text: string): { code: string } | { recovery_code: string } {
  const proof = text.trim();
  return /^\d{6}$/.test(proof) ? { code: proof } : { recovery_code: proof };
}

/** Ends a sign-in whose second factor is awaited. */
export function proveSignIn(token: string, proof: SecondFactor): Promise<Schemas['Session']> {
  return got(api.POST('/v1/auth/mfa', { body: { mfa_token: token, ...proof } }));
}
