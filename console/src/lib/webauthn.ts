import { ApiProblem, asProblem } from '../api/problem';

/** Whether this browser can talk to security keys and passkeys at this address, in the JSON form that the API speaks. */
export function securityKeysWork(): boolean {
  return (
    typeof PublicKeyCredential === 'function' &&
    typeof PublicKeyCredential.parseCreationOptionsFromJSON === 'function' &&
    typeof PublicKeyCredential.parseRequestOptionsFromJSON === 'function'
  );
}

/** Has a security key make a credential from the options of the API; the answer is what the API takes. */
export function makeSecurityKey(options: string): Promise<string> {
  return answerOf(() =>
    navigator.credentials.create({
      publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(JSON.parse(options)),
    }),
  );
}

/** Has a security key prove that it is there. */
export function askSecurityKey(options: string): Promise<string> {
  return answerOf(() =>
    navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(JSON.parse(options)) }),
  );
}

async function answerOf(ask: () => Promise<Credential | null>): Promise<string> {
  let credential: Credential | null;
  try {
    credential = await ask();
  } catch (err) {
    throw refusal(err);
  }
  if (!(credential instanceof PublicKeyCredential)) {
    throw new ApiProblem({ status: 0, code: 'webauthn_given_up' });
  }
  return JSON.stringify(credential.toJSON());
}

/** What a browser says when no answer of a key came, in the codes that pages have words for. */
export function refusal(err: unknown): ApiProblem {
  const name = err instanceof Error ? err.name : '';
  switch (name) {
    // Browsers tell a cancelled dialog, a time that ran out and a key that is not one of the account's apart for nobody.
    case 'NotAllowedError':
    case 'AbortError':
      return new ApiProblem({ status: 0, code: 'webauthn_given_up', cause: err });
    case 'InvalidStateError':
      return new ApiProblem({ status: 0, code: 'webauthn_known', cause: err });
    case 'SecurityError':
      return new ApiProblem({ status: 0, code: 'webauthn_unavailable', cause: err });
  }
  return asProblem(err);
}
