import { useQueryClient } from '@tanstack/react-query';
import { Form, Input, Modal, Segmented } from 'antd';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../../api/client';
import { durationMs, durationText } from '../../../lib/duration';
import { formatTime } from '../../../lib/format';
import { rememberSecret } from '../../../lib/secrets';
import { useLocale, useTenant } from '../../data';
import { fromLocalInput } from '../../localTime';
import { durationPattern } from '../../patterns';
import { compact } from '../../search';
import { ProblemView } from '../../ui';
import { useSave } from '../../useSave';
import { ExpiryField } from './Fields';
import { SecretField } from './Secret';

const overlaps = ['0s', '15m', '24h', '168h'];

interface Values {
  grace_period: string;
  expires_at?: string;
  secret?: string;
}

/** Puts a new key in the place of one; both work for a while, so that programs can change over. */
export function RotateKey(props: {
  apiKey: Schemas['ApiKey'];
  onClose: () => void;
  onMade: (key: Schemas['ApiKeyWithSecret']) => void;
}) {
  const { t } = useTranslation();
  const locale = useLocale();
  const queries = useQueryClient();
  const { apiKey } = props;
  const maxAge = useTenant().data?.security.max_key_age;
  const [form] = Form.useForm<Values>();
  const grace = Form.useWatch('grace_period', form) ?? '15m';
  const { busy, problem, save } = useSave<Values>(form, async (v) => {
    const key = await got(
      api.POST('/v1/api-keys/{id}/actions/rotate', {
        params: { path: { id: apiKey.id }, query: { wait: '10s' }, header: { 'If-Match': etag(apiKey) } },
        body: compact({
          grace_period: v.grace_period,
          expires_at: fromLocalInput(v.expires_at),
          secret: v.secret,
        }),
      }),
    );
    await queries.invalidateQueries({ queryKey: ['keys'] });
    props.onClose();
    if ('secret' in key) {
      if (key.secret) {
        rememberSecret(key.id, key.secret);
      }
      props.onMade(key);
    }
  });
  const overlap = durationMs(grace);
  return (
    <Modal
      open
      title={t('keys.rotate_one', { name: apiKey.name })}
      okText={t('keys.rotate')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={props.onClose}
    >
      <p>{t('keys.rotate_text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form form={form} layout="vertical" onFinish={save} initialValues={{ grace_period: '15m' }}>
        <Segmented
          className="gap"
          aria-label={t('keys.grace')}
          value={overlaps.includes(grace) ? grace : ''}
          options={overlaps.map((o) => ({
            value: o,
            label: o === '0s' ? t('keys.at_once') : durationText(o, locale),
          }))}
          onChange={(o) => form.setFieldsValue({ grace_period: o })}
        />
        <Form.Item
          name="grace_period"
          label={t('keys.grace')}
          extra={t('keys.grace_hint')}
          rules={[{ required: true, pattern: durationPattern, message: t('form.duration_pattern') }]}
        >
          <Input autoComplete="off" />
        </Form.Item>
        <p role="status" data-testid="overlap">
          {overlap === undefined || overlap === 0
            ? t('keys.ends_at_once')
            : t('keys.overlap', { time: formatTime(Date.now() + overlap, locale) })}
        </p>
        <ExpiryField maxAge={maxAge} label={t('keys.new_expires')} />
        <SecretField />
      </Form>
    </Modal>
  );
}
