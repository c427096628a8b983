import { shellWord } from '../../ascode';

/** How programs get a token of ours for one of their issuer, as text to copy. */

const grant = 'urn:ietf:params:oauth:grant-type:token-exchange';
const kind = 'urn:ietf:params:oauth:token-type:jwt';

/** For any program: the token of the issuer is in $TOKEN. */
export function exchangeCommand(server: string, id: string): string {
  return [
    `curl -fsS ${shellWord(`${server}/v1/auth/token`)}`,
    `-d grant_type=${grant}`,
    `-d client_id=${id}`,
    `-d subject_token_type=${kind}`,
    '-d audience=data',
    '--data-urlencode "subject_token=$TOKEN"',
  ].join(' \\\n  ');
}

export const issuers = {
  github: 'https://token.actions.githubusercontent.com',
  gitlab: 'https://gitlab.com',
} as const;

/** A step of GitHub Actions that asks GitHub for a token and exchanges it. */
export function githubStep(server: string, id: string, audience: string): string {
  const ask = `"$ACTIONS_ID_TOKEN_REQUEST_URL&audience=${encodeURIComponent(audience)}"`;
  return `permissions:
  id-token: write
steps:
  - name: Token of Sluice
    run: |
      TOKEN=$(curl -fsS -H "Authorization: Bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN" ${ask} | jq -r .value)
      ${exchangeCommand(server, id).replaceAll('\n', '\n      ')} | jq -r .access_token > sluice-token
`;
}
