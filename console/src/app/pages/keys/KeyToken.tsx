import { Alert, Button, Modal } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../../api/client';
import { type ApiProblem, asProblem } from '../../../api/problem';
import { formatTime } from '../../../lib/format';
import { useLocale } from '../../data';
import { Code, ProblemView } from '../../ui';

/** A short token for a key of one's own, for an SDK that is to be tried out: the secret is not needed for it. */
export function KeyToken({ apiKey, onClose }: { apiKey: Schemas['ApiKey']; onClose: () => void }) {
  const { t } = useTranslation();
  const locale = useLocale();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiProblem>();
  const [made, setMade] = useState<{ token: string; ends: number }>();

  async function make() {
    setBusy(true);
    setProblem(undefined);
    try {
      const { access_token, expires_in } = await got(
        api.POST('/v1/api-keys/{id}/actions/create-token', { params: { path: { id: apiKey.id } } }),
      );
      setMade({ token: access_token, ends: Date.now() + expires_in * 1000 });
    } catch (err) {
      setProblem(asProblem(err));
    } finally {
      setBusy(false);
    }
  }

  return (
    <Modal
      open
      title={t('key_token.title', { name: apiKey.name })}
      closable={false}
      mask={{ closable: false }}
      onCancel={onClose}
      footer={[
        <Button key="close" onClick={onClose}>
          {made ? t('keys.done') : t('action.cancel')}
        </Button>,
        !made && (
          <Button key="make" type="primary" loading={busy} onClick={() => void make()} data-testid="make-token">
            {t('key_token.make')}
          </Button>
        ),
      ]}
      width={640}
    >
      <p>{t('key_token.text')}</p>
      {problem && <ProblemView problem={problem} />}
      {made && (
        <div data-testid="key-token">
          <Alert
            type="warning"
            showIcon
            className="gap"
            title={t('key_token.once', { time: formatTime(made.ends, locale) })}
          />
          <Code text={made.token} title={t('key_token.token')} />
        </div>
      )}
    </Modal>
  );
}
