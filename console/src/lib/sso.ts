import { api, got, type Schemas } from '../api/client';

/** Leaves for the identity provider that the mail address or the tenant has. What comes of it begins a new page. */
export async function goToProvider(who: Schemas['SsoStart']): Promise<void> {
  const { authorization_url } = await got(api.POST('/v1/auth/sso/start', { body: who }));
  const url = new URL(authorization_url);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new Error(`${url.protocol} is no address to sign in at`);
  }
  location.assign(url);
}
