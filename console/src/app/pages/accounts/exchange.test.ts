import { describe, expect, it } from 'vitest';
import { exchangeCommand, githubStep } from './exchange';

describe('the exchange of a token', () => {
  it('is one command', () => {
    expect(exchangeCommand('https://sluice.example.com', 'wid_1')).toBe(
      [
        'curl -fsS https://sluice.example.com/v1/auth/token \\',
        '  -d grant_type=urn:ietf:params:oauth:grant-type:token-exchange \\',
        '  -d client_id=wid_1 \\',
        '  -d subject_token_type=urn:ietf:params:oauth:token-type:jwt \\',
        '  -d audience=data \\',
        '  --data-urlencode "subject_token=$TOKEN"',
      ].join('\n'),
    );
  });

  it('asks GitHub for a token for our audience only', () => {
    const step = githubStep('https://s.example', 'wid_1', 'https://s.example/a b');
    expect(step).toContain('id-token: write');
    expect(step).toContain('&audience=https%3A%2F%2Fs.example%2Fa%20b"');
    expect(step).toContain('\n        -d client_id=wid_1 \\');
  });
});
