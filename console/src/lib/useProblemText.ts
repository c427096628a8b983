import { useTranslation } from 'react-i18next';
import type { ApiProblem } from '../api/problem';

const known = [
  'invalid',
  'unauthenticated',
  'forbidden',
  'not_found',
  'conflict',
  'precondition_failed',
  'unprocessable',
  'quota_exceeded',
  'rate_limited',
  'unavailable',
  'internal',
  'offline',
  'console',
] as const;

/** The title in the user's language where there is one for the code, else the server's; the detail as it was said. */
export function useProblemText(problem: ApiProblem): { title: string; detail: string } {
  const { t } = useTranslation();
  const code = known.find((k) => k === problem.code);
  const title = code ? t(`problem.code.${code}`) : problem.title || t('problem.code.internal');
  const details = [problem.detail];
  if (problem.quota) {
    details.push(
      t('problem.quota', {
        name: problem.quota.name,
        used: String(problem.quota.used),
        limit: String(problem.quota.limit),
      }),
    );
  }
  if (problem.retryAfter !== undefined) {
    details.push(t('problem.retry_after', { seconds: String(problem.retryAfter) }));
  }
  return { title, detail: details.filter(Boolean).join(' ') };
}
