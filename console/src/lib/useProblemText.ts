import { useTranslation } from 'react-i18next';
import type { ApiProblem } from '../api/problem';
import { isQuotaName } from './quota';

/** The title in the user's language where there is one for the code, else the server's; the detail as it was said. */
export function useProblemText(problem: ApiProblem): { title: string; detail: string } {
  const { t, i18n } = useTranslation();
  const key = `problem.code.${problem.code}` as 'problem.code.internal';
  const title = i18n.exists(key) ? t(key) : problem.title || t('problem.code.internal');
  const details = [problem.detail];
  if (problem.quota) {
    const { name } = problem.quota;
    details.push(
      t('problem.quota', {
        name: isQuotaName(name) ? t(`quota_name.${name}`) : name,
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
