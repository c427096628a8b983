/**
 * Every path that the console answers to. Mails link to some of them; a test holds the mails against this list. It
 * imports nothing, so that it costs the first page nothing.
 */
export const lightPaths = [
  '/sign-up',
  '/verify',
  '/sign-in',
  '/password-reset',
  '/reset-password',
  '/start',
  '/invitations/accept',
  '/reopen',
  '/undo-email',
] as const;

export type LightPath = (typeof lightPaths)[number];

export function isLightPath(path: string): path is LightPath {
  return (lightPaths as readonly string[]).includes(path);
}

export const paths = {
  home: '/',
  namespaces: '/namespaces',
  topics: '/n/$ns/topics',
  topic: '/n/$ns/topics/$topic',
  groups: '/n/$ns/groups',
  group: '/n/$ns/groups/$group',
  access: '/n/$ns/access',
  keys: '/api-keys',
  key: '/api-keys/$id',
  /** As mails call it. */
  keysInMails: '/keys',
  usage: '/usage',
  costs: '/costs',
  quotas: '/quotas',
  members: '/members',
  roles: '/roles',
  serviceAccounts: '/service-accounts',
  security: '/security',
  provider: '/identity-providers/$id',
  audit: '/audit',
  account: '/account',
} as const;
