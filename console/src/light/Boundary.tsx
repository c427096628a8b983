import { Component, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { ApiProblem } from '../api/problem';
import { Button, LightPage, ProblemNote } from './ui';

/** Catches what breaks while drawing, so that an odd page never leaves a white screen. */
export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    return this.state.error === undefined ? this.props.children : <Broken error={this.state.error} />;
  }
}

export function Broken({ error }: { error: unknown }) {
  const { t } = useTranslation();
  const problem =
    error instanceof ApiProblem
      ? error
      : new ApiProblem({ status: 0, code: 'console', detail: error instanceof Error ? error.message : String(error) });
  return (
    <LightPage title={t('state.broken')}>
      <ProblemNote problem={problem} />
      <Button onClick={() => location.reload()}>{t('state.reload')}</Button>
    </LightPage>
  );
}
