import { api, session } from '../api/client';
import { go } from './location';
import { forgetSecrets } from './secrets';

/** Signs out: on the server, then here, also when the server cannot be reached; its cookie then runs out by itself. */
export async function leave(): Promise<void> {
  try {
    await api.POST('/v1/auth/sign-out');
  } catch {
    // Nothing more can be done than to forget the token.
  }
  go('/sign-in', 'replace');
  forgetSecrets();
  session.drop();
}
