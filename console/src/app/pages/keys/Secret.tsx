import { Alert, Button, Form, Input, Modal, Radio, Space } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Schemas } from '../../../api/client';
import { Copyable } from '../../ui';
import { broughtSecret } from './values';

/** Whether the server makes the secret or the user brings one. */
export function SecretField() {
  const { t } = useTranslation();
  const [own, setOwn] = useState(false);
  return (
    <>
      <Form.Item label={t('keys.secret')}>
        <Radio.Group
          value={own}
          onChange={(e) => setOwn(e.target.value as boolean)}
          options={[
            { value: false, label: t('keys.secret_made') },
            { value: true, label: t('keys.secret_own') },
          ]}
        />
      </Form.Item>
      {own && (
        <Form.Item
          name="secret"
          // What was typed is not sent once the choice is another one.
          preserve={false}
          label={t('keys.secret_own_label')}
          extra={t('keys.secret_own_hint')}
          rules={[{ required: true, pattern: broughtSecret, message: t('keys.secret_own_wrong') }]}
        >
          <Input type="password" autoComplete="new-password" maxLength={128} />
        </Form.Item>
      )}
    </>
  );
}

/** The only place where a secret is shown. It goes away by an explicit word, not by a click beside the dialog. */
export function SecretOnce({ apiKey, onClose }: { apiKey: Schemas['ApiKeyWithSecret']; onClose: () => void }) {
  const { t } = useTranslation();
  const brought = apiKey.secret === '';
  return (
    <Modal
      open
      title={t('keys.made', { name: apiKey.name })}
      closable={false}
      mask={{ closable: false }}
      keyboard={false}
      footer={
        <Button type="primary" onClick={onClose} data-testid="secret-stored">
          {brought ? t('keys.done') : t('keys.stored')}
        </Button>
      }
      width={640}
    >
      <Alert
        type={brought ? 'success' : 'warning'}
        showIcon
        className="gap"
        title={brought ? t('keys.brought') : t('keys.once')}
      />
      <Space orientation="vertical">
        <div>
          <div className="muted">{t('start.access_key')}</div>
          <Copyable text={apiKey.id} what={t('start.access_key')} />
        </div>
        {!brought && (
          <div data-testid="secret">
            <div className="muted">{t('start.secret_key')}</div>
            <Copyable text={apiKey.secret} what={t('start.secret_key')} />
          </div>
        )}
      </Space>
    </Modal>
  );
}
