// The OpenID provider that tests sign in at: oidc-provider, a certified
// implementation, with its own login form. It listens on a free port of
// loopback, prints {"issuer": "..."} and ends when its input does.
//
// Anybody signs in, with any password; the login is subject and mail address.
// One that begins with "unverified" has an address that is not verified.
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { Provider } from 'oidc-provider'

const jwk = (type, options, alg) => ({ ...generateKeyPairSync(type, options).privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: `${alg}-${randomBytes(4).toString('hex')}` })

const server = createServer()
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`
  const provider = new Provider(issuer, {
    jwks: { keys: [jwk('rsa', { modulusLength: 2048 }, 'RS256'), jwk('ec', { namedCurve: 'P-256' }, 'ES256'), jwk('ed25519', {}, 'EdDSA')] },
    cookies: { keys: [randomBytes(16).toString('hex')] },
    // It refuses to call addresses of this machine by itself, and all its clients are there.
    fetch: (url, { dispatcher, ...options }) => globalThis.fetch(url, options),
    pkce: { required: () => true },
    claims: { openid: ['sub', 'sid'], email: ['email', 'email_verified'], profile: ['name'] },
    // false: the ID token holds the mail address, as most providers have it.
    conformIdTokenClaims: process.env.OIDCTEST_CONFORM === 'true',
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'ES256', 'EdDSA'] },
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: true },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: { enabled: true },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({ scope: 'work', accessTokenFormat: 'jwt', accessTokenTTL: 600, jwt: { sign: { alg: 'RS256' } } }),
      },
    },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, name: `Name of ${id}`, email: id.replace(/^unverified\./, ''), email_verified: !id.startsWith('unverified') }),
    }),
    ttl: { Session: 3600, Grant: 3600, AccessToken: 600, IdToken: 600, Interaction: 600 },
  })
  provider.on('server_error', (_, err) => console.error(err))
  provider.on('backchannel.error', (_, err) => console.error('backchannel', err.message, err.cause))
  server.on('request', provider.callback())
  console.log(JSON.stringify({ issuer }))
})
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
