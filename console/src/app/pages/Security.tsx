import { useTranslation } from 'react-i18next';
import { useMay, useTenant } from '../data';
import { Outcome, PageHead } from '../ui';
import { Demands } from './security/Demands';
import { Providers } from './security/Providers';

/** What the organisation asks of its people and keys, and where its people sign in. */
export function Security() {
  const { t } = useTranslation();
  const tenant = useTenant();
  const seesProviders = useMay('sso:read');
  return (
    <>
      <PageHead title={t('security.title')} lead={t('security.lead')} />
      <Outcome query={tenant}>{(v) => <Demands key={v.revision} tenant={v} />}</Outcome>
      {seesProviders && <Providers />}
    </>
  );
}
