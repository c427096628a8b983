import type { ErrorComponentProps } from '@tanstack/react-router';
import { Link } from '@tanstack/react-router';
import { Button, Result, Skeleton } from 'antd';
import { useTranslation } from 'react-i18next';
import { ApiProblem } from '../api/problem';
import { ProblemView } from './ui';

/** Stands in for a page that broke; the rest of the console goes on working. */
export function Broken({ error, reset }: ErrorComponentProps) {
  const { t } = useTranslation();
  const problem =
    error instanceof ApiProblem
      ? error
      : new ApiProblem({ status: 0, code: 'console', detail: error instanceof Error ? error.message : String(error) });
  return (
    <>
      <h1>{t('state.broken')}</h1>
      <ProblemView problem={problem} onRetry={reset} />
      <Button onClick={() => location.reload()}>{t('state.reload')}</Button>
    </>
  );
}

export function Missing() {
  const { t } = useTranslation();
  return (
    <Result
      status="info"
      title={t('state.no_page')}
      subTitle={t('state.no_page_text')}
      extra={<Link to="/">{t('state.home')}</Link>}
    />
  );
}

export function Waiting() {
  const { t } = useTranslation();
  return (
    <div role="status" aria-busy="true" aria-label={t('state.loading')}>
      <Skeleton active paragraph={{ rows: 6 }} />
    </div>
  );
}
